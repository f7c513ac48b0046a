package adminport

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
)

// three are three servers that serve, and the admin port of the leader.
func three(t *testing.T, root string) (*inprocess.Ensemble, int, *httptest.Server) {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, time.Second, 64<<10
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
	port := httptest.NewServer(Handler(e.Server(leader), admin.Commands{Version: "1.2.3"}, root))
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

// get asks with headers, given in pairs; Host is the name of the server.
func get(t *testing.T, url string, headers ...string) (int, string) {
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
	return response.StatusCode, string(body)
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

// TestHealthIsThatOfTheServer stops the two others.
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
		if code != want || (code == http.StatusOK) != !strings.Contains(text, "no leader with a quorum is followed") {
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

// A page that an operator's browser shows must not learn of the server, or reset its
// figures: not by a request to the loopback, and not by a name of its own for it.
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
	if code, text := get(t, port.URL); code != http.StatusServiceUnavailable || !strings.Contains(text, "others are asking") {
		t.Errorf("%d %s", code, text)
	}
	awaittest.Until(t, "all but the last have reached the server", func() bool { return len(asked) >= askingMax })
	if len(asked) != askingMax {
		t.Errorf("%d reached the server", len(asked))
	}
}
