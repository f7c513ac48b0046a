package adminport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// three starts three servers and waits until they serve, and returns the admin port of the
// leader.
func three(t *testing.T, root string, changes ...func(*server.Config)) (*inprocess.Ensemble, int, *httptest.Server) {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 64<<10
	for _, change := range changes {
		change(&base)
	}
	e, err := inprocess.Start(inprocess.Options{Servers: 3, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	await(t, e, func() bool {
		for id := 1; id <= 3; id++ {
			if s := e.Server(id); s == nil || !s.Serves() {
				return false
			}
		}
		return e.Leader() != 0
	})
	leader := e.Leader()
	port := httptest.NewServer(Handler(e.Server(leader), admin.Commands{Version: "1.2.3"}, root, Copies{}))
	t.Cleanup(port.Close)
	return e, leader, port
}

func await(t *testing.T, e *inprocess.Ensemble, ready func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Await(ctx, ready); err != nil {
		t.Fatal(err)
	}
}

// get sends a request with headers, given in pairs; the header Host sets the host name.
func get(t *testing.T, url string, headers ...string) (int, string) {
	t.Helper()
	response, body := ask(t, url, headers...)
	return response.StatusCode, string(body)
}

// ask is get for those who also look at the headers of the answer.
func ask(t *testing.T, url string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

func TestCommandsAreAnsweredUnderTheirPath(t *testing.T) {
	for _, root := range []string{"/commands", "/a/b"} {
		_, _, port := three(t, root)
		for _, path := range []string{"", "/"} {
			code, text := get(t, port.URL+root+path)
			if want := `<a href="` + root + `/server_stats">server_stats</a>`; code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s%s: %d\n%s", root, path, code, text)
			}
		}
		code, text := get(t, port.URL+root+"/lead")
		var answer map[string]any
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK || answer["is_leader"] != true {
			t.Errorf("%d %s", code, text)
		}
		if code, text = get(t, port.URL+root+"/nothing"); code != http.StatusOK || !strings.Contains(text, "Unknown command: nothing") {
			t.Errorf("%d %s", code, text)
		}
		if code, _ = get(t, port.URL+"/elsewhere"); code != http.StatusNotFound {
			t.Errorf("elsewhere: %d", code)
		}
	}
}

// The path of the commands may equal the path of a check: it then answers the check, and
// the commands are below it.
func TestCommandsMayBeBelowACheck(t *testing.T) {
	_, _, port := three(t, "/livez")
	for path, want := range map[string]string{"/livez": `"ok": true`, "/livez/ruok": `"command": "ruok"`} {
		if code, text := get(t, port.URL+path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

func TestOnlyGetIsAnswered(t *testing.T) {
	_, _, port := three(t, "/commands")
	response, err := http.Post(port.URL+"/commands/stat_reset", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Error(response.Status)
	}
}

// TestHealthIsThatOfTheServer stops the two other servers.
func TestHealthIsThatOfTheServer(t *testing.T) {
	e, leader, port := three(t, "/commands")
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if code, text := get(t, port.URL+path); code != http.StatusOK || !strings.Contains(text, `"state": "leader"`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	for id := 1; id <= 3; id++ {
		if id != leader {
			if err := e.Stop(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := e.Server(leader)
	await(t, e, func() bool { return s.Role().Mode == server.ModeLooking })
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusServiceUnavailable} {
		code, text := get(t, port.URL+path)
		if code != want || (code == http.StatusOK) != !strings.Contains(text, "it follows no leader with a quorum") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if err := e.Stop(leader); err != nil {
		t.Fatal(err)
	}
	if code, text := get(t, port.URL+"/livez"); code != http.StatusServiceUnavailable {
		t.Errorf("after its end: %d %s", code, text)
	}
}

// A rollout waits until each server is ready, and a node is drained only while all are: so a leader is,
// even if it accepts no clients.
func TestLeaderThatServesNoClientsIsReady(t *testing.T) {
	_, _, port := three(t, "/commands", func(c *server.Config) { c.NoClientsOfLeader = true })
	if code, text := get(t, port.URL+"/readyz"); code != http.StatusOK || !strings.Contains(text, `"state": "leader"`) {
		t.Errorf("%d %s", code, text)
	}
}

func TestFullDiskIsNotHealthy(t *testing.T) {
	for _, test := range []struct {
		st    server.Status
		wrong int
	}{
		{server.Status{}, 0}, {server.Status{DiskFull: true}, 1},
	} {
		if why := fails(&test.st); len(why) != test.wrong {
			t.Error(why)
		}
	}
	st := server.Status{}
	st.Counts.DigestMismatches = 1
	if why := fails(&st); len(why) != 1 {
		t.Error(why)
	}
}

// A page in an operator's browser must not learn anything about the server or reset its
// metrics: neither with a request to the loopback nor with a host name of its own for it.
func TestPagesOfOtherSitesGetNoAnswer(t *testing.T) {
	_, _, port := three(t, "/commands")
	for _, test := range []struct {
		headers []string
		want    int
	}{
		{nil, http.StatusOK},
		{[]string{"Host", "localhost:8080"}, http.StatusOK},
		{[]string{"Host", "[::1]:8080"}, http.StatusOK},
		{[]string{"Sec-Fetch-Site", "none"}, http.StatusOK},
		{[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		{[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{[]string{"Host", "rebound.example:8080"}, http.StatusForbidden},
		{[]string{"Host", "localhost.example"}, http.StatusForbidden},
	} {
		if code, text := get(t, port.URL+"/commands/srvr", test.headers...); code != test.want {
			t.Errorf("%v: %d %s", test.headers, code, text)
		}
	}
}

func TestAServerThatHangsIsToldWithinATime(t *testing.T) {
	asked := make(chan struct{}, 64)
	release := make(chan struct{})
	hangs := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release })
	port := httptest.NewServer(bounded(hangs, 50*time.Millisecond))
	defer port.Close()
	defer close(release)
	for range askingMax {
		if code, text := get(t, port.URL); code != http.StatusServiceUnavailable || text != "the server does not answer" {
			t.Fatalf("%d %s", code, text)
		}
	}
	if code, text := get(t, port.URL); code != http.StatusServiceUnavailable || !strings.Contains(text, "too many requests are waiting") {
		t.Errorf("%d %s", code, text)
	}
	awaittest.Until(t, "all but the last have reached the server", func() bool { return len(asked) >= askingMax })
	if len(asked) != askingMax {
		t.Errorf("%d reached the server", len(asked))
	}
}

// Clients that ask for the watches of all clients and do not read the answers hold few of
// them in memory.
func TestAnswersThatNobodyReadsAreFew(t *testing.T) {
	const paths = 20
	base := server.Default()
	base.PreallocBytes = 64 << 10
	e, err := inprocess.Start(inprocess.Options{Servers: 1, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	await(t, e, func() bool { return e.Server(1) != nil && e.Server(1).Serves() })
	port := httptest.NewServer(handler(e.Server(1), admin.Commands{}, "/commands", Copies{}, time.Minute)) // the machine may be slow
	defer port.Close()
	ctx := awaittest.Within(t)
	c, err := client.Dial(ctx, e.Addr(1), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range paths { // more than the socket buffers take
		if _, _, _, err := c.ExistsW(ctx, fmt.Sprintf("/%d%s", i, strings.Repeat("a", 500<<10))); err != nil {
			t.Fatal(err)
		}
	}
	statuses := map[string]int{}
	var askers []net.Conn
	for range 4 * longMax {
		asker, err := net.Dial("tcp", port.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer asker.Close()
		askers = append(askers, asker)
		fmt.Fprintf(asker, "GET /commands/wchp HTTP/1.1\r\nHost: localhost\r\n\r\n")
		status, err := bufio.NewReaderSize(asker, 16).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		statuses[strings.TrimSpace(status)]++
	}
	if statuses["HTTP/1.1 200 OK"] != longMax || statuses["HTTP/1.1 503 Service Unavailable"] != 3*longMax {
		t.Errorf("of %d who read nothing: %v", len(askers), statuses)
	}
	if code, text := get(t, port.URL+"/commands/srvr"); code != http.StatusOK {
		t.Errorf("a short answer meanwhile: %d %s", code, text)
	}
	for _, asker := range askers {
		asker.Close()
	}
	awaittest.Until(t, "the watches are told again", func() bool {
		code, text := get(t, port.URL+"/commands/watches")
		return code == http.StatusOK && len(text) > paths*500<<10
	})
}

// disk is a disk that hangs when a directory is listed, once it is told to.
type disk struct {
	vfs.FS
	hangs   atomic.Bool
	release chan struct{}
}

func (d *disk) List(dir string) ([]string, error) {
	if d.hangs.Load() {
		<-d.release
	}
	return d.FS.List(dir)
}

// However many requests wait for an answer that does not come, the check for liveness is
// answered: otherwise the server would be restarted.
func TestHealthIsToldWhileOthersWait(t *testing.T) {
	slow := &disk{FS: vfs.NewMem(), release: make(chan struct{})}
	base := server.Default()
	base.PreallocBytes = 64 << 10
	e, err := inprocess.Start(inprocess.Options{Servers: 1, Base: base, FS: func(int) vfs.FS { return slow }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	await(t, e, func() bool { return e.Server(1) != nil && e.Server(1).Serves() })
	port := httptest.NewServer(Handler(e.Server(1), admin.Commands{}, "/commands", Copies{}))
	defer port.Close()
	defer close(slow.release)
	slow.hangs.Store(true)
	ask := func() {
		asker, err := net.Dial("tcp", port.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = asker.Close() })
		fmt.Fprintf(asker, "GET /commands/dirs HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for range askingMax {
		ask()
	}
	awaittest.Until(t, "all places are taken", func() bool {
		code, _ := get(t, port.URL+"/commands/ruok")
		if code == http.StatusServiceUnavailable {
			return true
		}
		ask() // the previous request was refused while the last check had a place
		return false
	})
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if code, text := get(t, port.URL+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}
