package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// fake is a source that counts.
type fake struct {
	looks   atomic.Int64
	follows atomic.Int64
	ends    atomic.Int64
	writes  atomic.Int64
	burst   int // transactions that Follow reports at once
}

func (f *fake) Look(context.Context) (any, error) { return f.looks.Add(1), nil }
func (f *fake) Elections(context.Context) (any, error) {
	return nil, cli.Failed(errors.New("no elections here"), "try elsewhere")
}
func (f *fake) History(_ context.Context, election string) (any, error) {
	return nil, cli.NotFound(fmt.Errorf("nobody has led %q", election), "")
}
func (f *fake) Children(_ context.Context, path, cursor string, limit int) (any, error) {
	return fmt.Sprint(path, " ", cursor, " ", limit), nil
}
func (f *fake) Znode(_ context.Context, path string) (any, error) {
	return nil, fmt.Errorf("get %s: %w", path, zk.ErrNoAuth)
}
func (f *fake) Sessions(context.Context) (any, error) {
	return nil, &cli.Error{Err: errors.New("nobody answers"), Exit: cli.ExitNoServer}
}
func (f *fake) Votes(context.Context) (any, error)               { return nil, nil }
func (f *fake) Watches(context.Context, string) (any, error)     { return nil, nil }
func (f *fake) Log(_ context.Context, q LogQuery) (any, error)   { return q, nil }
func (f *fake) Ask(context.Context, string, string) (any, error) { f.writes.Add(1); return nil, nil }
func (f *fake) Write(_ context.Context, w Write) (any, error)    { f.writes.Add(1); return w, nil }
func (f *fake) Follow(ctx context.Context, each func(any)) error {
	f.follows.Add(1)
	defer f.ends.Add(1)
	for i := range f.burst {
		each(i)
	}
	<-ctx.Done()
	return nil
}

// serve serves a dashboard, and returns its address.
func serve(t *testing.T, f *fake, options Options) string {
	t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := New(f, options)
	d.Serve(l)
	t.Cleanup(d.Close)
	return "http://" + l.Addr().String()
}

// ask sends a request, and returns its status and answer.
func ask(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(awaittest.Within(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAnswersHaveTheStatusOfWhatHappened(t *testing.T) {
	at := serve(t, &fake{}, Options{Log: true, Version: "9"})
	for _, one := range []struct {
		path   string
		status int
		text   string
	}{
		{"/", 200, "<title>Conclave</title>"},
		{"/api/v1/about", 200, `{"version":"9","changes":false,"log":true,"lab":false}`},
		{"/api/v1/openapi.json", 200, "{"},
		{"/api/v1/elections", 502, `"hint":"try elsewhere"`},
		{"/api/v1/elections/history?election=x", 404, "nobody has led"},
		{"/api/v1/sessions", 503, "nobody answers"},
		{"/api/v1/znode?path=/secret", 403, "/secret"},
		{"/api/v1/children", 200, `"/  200"`},
		{"/api/v1/children?path=/a&cursor=c&limit=7", 200, `"/a c 7"`},
		{"/api/v1/children?limit=0", 400, "limit"},
		{"/api/v1/children?limit=1001", 400, "limit"},
		{"/api/v1/children?limit=x", 400, "limit"},
		{"/api/v1/log?path=/a&session=0x1&op=delete&limit=5", 200, `{"Path":"/a","Session":"0x1","Op":"delete","Limit":5}`},
		{"/api/v1/log?path=app", 400, "begin with /"},
		{"/api/v1/watches?path=app", 400, "begin with /"},
		{"/api/v1/nothing", 404, "openapi.json"},
		{"/api/v2/look", 404, "openapi.json"},
		{"/api/v1/events?of=look,nothing", 400, "no stream"},
		{"/api/v1/events?of=look,look", 400, "twice"},
	} {
		if status, text := ask(t, "GET", at+one.path, ""); status != one.status || !strings.Contains(text, one.text) {
			t.Errorf("%s: %d %s", one.path, status, text)
		}
	}
	if status, text := ask(t, "GET", serve(t, &fake{}, Options{})+"/api/v1/log", ""); status != 404 || !strings.Contains(text, "no log") {
		t.Errorf("without a log: %d %s", status, text)
	}
}

// TestOtherSitesGetNothing: neither with a cross-site request nor with their own host name for the
// loopback address (dashboard-D1).
func TestOtherSitesGetNothing(t *testing.T) {
	f := &fake{}
	at := serve(t, f, Options{Changes: true})
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Host", "evil.example"}, {"Host", "evil.example:80"}} {
		header = append(header, "Content-Type", "application/json")
		for method, path := range map[string]string{"GET": "/api/v1/look", "POST": "/api/v1/znode"} {
			if status, text := ask(t, method, at+path, `{"do":"delete","path":"/a"}`, header...); status != 403 {
				t.Errorf("%s %s with %q: %d %s", method, path, header, status, text)
			}
		}
	}
	if f.looks.Load()+f.writes.Load() != 0 {
		t.Error("the source was asked")
	}
}

// TestBodiesThatNeverComeHoldNobodyUp: the server used to read a form in the body of a GET without
// limits of time and memory, while it counted as one of the requests (dashboard-D4).
func TestBodiesThatNeverComeHoldNobodyUp(t *testing.T) {
	at := serve(t, &fake{}, Options{})
	for range askingMax + 1 {
		socket, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
		_, err = io.WriteString(socket, "GET /api/v1/watches?path=/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"+
			"Content-Length: 1000000000\r\n\r\n--x\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := io.ReadAll(socket) // the request is answered, and its connection closed
		if !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	if status, text := ask(t, "GET", at+"/api/v1/watches?path=/a", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// TestChangesNeedAnOptionAndJSON checks dashboard-D2.
func TestChangesNeedAnOptionAndJSON(t *testing.T) {
	const change = `{"do":"set","path":"/a","data":"x"}`
	f := &fake{}
	at := serve(t, f, Options{})
	if status, text := ask(t, "POST", at+"/api/v1/znode", change, "Content-Type", "application/json"); status != 403 || !strings.Contains(text, "--changes") {
		t.Errorf("without the option: %d %s", status, text)
	}
	at = serve(t, f, Options{Changes: true})
	for _, one := range []struct {
		method, kind, body string
		status             int
	}{
		{"POST", "text/plain", change, 415},
		{"POST", "application/x-www-form-urlencoded", change, 415},
		{"POST", "", change, 415},
		{"PUT", "application/json", change, 404},
		{"GET", "application/json", change, 403}, // this is a read, which the fake refuses
		{"POST", "application/json", `{"do":"set","paht":"/a"}`, 400},
		{"POST", "application/json", change + change, 400},
		{"POST", "application/json", `{"data":"` + strings.Repeat("x", bodyBytesMax) + `"}`, 413},
	} {
		if status, text := ask(t, one.method, at+"/api/v1/znode", one.body, "Content-Type", one.kind); status != one.status {
			t.Errorf("%s of %s: %d %.200s", one.method, one.kind, status, text)
		}
	}
	if n := f.writes.Load(); n != 0 {
		t.Errorf("%d changes reached the source", n)
	}
	status, text := ask(t, "POST", at+"/api/v1/znode", change, "Content-Type", "application/json; charset=utf-8")
	if status != 200 || f.writes.Load() != 1 || !strings.Contains(text, `"path":"/a"`) {
		t.Errorf("%d %s", status, text)
	}
}

// events opens a stream, and returns its lines.
func events(t *testing.T, url string) (next func() (name, data string), end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	var once sync.Once
	end = func() { once.Do(func() { cancel(); answer.Body.Close() }) }
	t.Cleanup(end)
	return func() (name, data string) {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return name, text
			}
		}
		return "", ""
	}, end
}

// TestServersAreAskedOnceForAll: however many browsers follow, and not at all if nobody does
// (dashboard-D3).
func TestServersAreAskedOnceForAll(t *testing.T) {
	f := &fake{}
	at := serve(t, f, Options{Log: true})
	var ends []func()
	for range 20 {
		next, end := events(t, at+"/api/v1/events?of=log")
		if name, _ := next(); name != "begin" {
			t.Fatalf("it begins with %q", name)
		}
		ends = append(ends, end)
	}
	awaittest.Until(t, "the source is followed", func() bool { return f.follows.Load() == 1 })
	if n := f.follows.Load(); n != 1 {
		t.Errorf("it is followed %d times", n)
	}
	for _, end := range ends {
		end()
	}
	awaittest.Until(t, "nobody follows", func() bool { return f.ends.Load() == 1 })
	next, _ := events(t, at+"/api/v1/events?of=log")
	next()
	awaittest.Until(t, "it is followed again", func() bool { return f.follows.Load() == 2 })
}

func TestLooksAndFailuresAreEvents(t *testing.T) {
	f := &fake{}
	at := serve(t, f, Options{})
	next, _ := events(t, at+"/api/v1/events?of=look,elections")
	seen := map[string]string{}
	for len(seen) < 3 {
		name, data := next()
		if _, later := seen[name]; !later {
			seen[name] = data
		}
	}
	var problem Problem
	if err := json.Unmarshal([]byte(seen["elections"]), &problem); err != nil || problem.Error != "no elections here" || problem.Hint != "try elsewhere" {
		t.Errorf("%q: %v", seen["elections"], err)
	}
	if seen["look"] != "1" {
		t.Errorf("the first look is %q", seen["look"])
	}
	// A later follower gets the last look at once.
	later, _ := events(t, at+"/api/v1/events?of=look")
	later()
	if name, data := later(); name != "look" || data == "" {
		t.Errorf("%s %s", name, data)
	}
}

// TestSlowBrowserLosesEventsAndIsTold is dashboard-D4: events that do not fit are counted.
func TestSlowBrowserLosesEventsAndIsTold(t *testing.T) {
	const burst = 10 * eventsWaiting
	s := &stream{produce: (&fake{burst: burst}).Follow}
	defer s.close()
	// The stream has begun and has sent all events before the browser reads.
	follower := s.follow()
	awaittest.Until(t, "all is told", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return string(s.last) == fmt.Sprint(burst-1)
	})
	if got, lost := len(follower.events), s.taken(follower); got != eventsWaiting || lost != burst-eventsWaiting {
		t.Errorf("%d events wait, %d were lost, of %d", got, lost, burst)
	}
	if again := s.taken(follower); again != 0 {
		t.Errorf("%d are told twice", again)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	f := &fake{}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := New(f, Options{Log: true, Logger: slog.New(slog.DiscardHandler)})
	d.Serve(l)
	next, _ := events(t, "http://"+l.Addr().String()+"/api/v1/events?of=log,look")
	next()
	d.Close()
	if f.follows.Load() != f.ends.Load() {
		t.Error("the source is in use after Close")
	}
	for name, s := range d.streams {
		if s.follow() != nil {
			t.Errorf("%s can be followed after Close", name)
		}
	}
}

func TestDashboardIsOfTheLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:80", "example.org:80", "[::]:0", "127.0.0.1", "127.0.0.1:99999"} {
		l, err := Listen(address)
		var hinted *cli.Error
		if !errors.As(err, &hinted) || hinted.Hint == "" {
			t.Errorf("%q: %v", address, err)
		}
		if err == nil {
			l.Close()
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "127.0.0.2:0"} {
		l, err := Listen(address)
		if err != nil {
			t.Errorf("%q: %v", address, err)
			continue
		}
		l.Close()
	}
}

// The page's files load nothing from elsewhere.
func TestPageIsWhole(t *testing.T) {
	at := serve(t, &fake{}, Options{})
	for _, name := range []string{"", "app.js", "dom.js", "text.js", "ensemble.js", "elections.js", "tree.js", "sessions.js", "log.js", "dashboard.css", "icon.svg"} {
		status, text := ask(t, "GET", at+"/"+name, "")
		if status != 200 || strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/", ""), "http://") || strings.Contains(text, "https://") {
			t.Errorf("%s: %d, or it names another site", name, status)
		}
	}
}
