package httpport

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/lobby"
)

// serve opens a port that answers everything.
func serve(t *testing.T) string {
	t.Helper()
	p, err := Listen("test", "127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.readTime = time.Hour // no answer depends on it, and no end of a test
	p.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }),
		time.Hour, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	return p.Addr().String()
}

// ask sends the header of a request on a new connection, and returns the connection when
// the answer was read.
func ask(t *testing.T, addr, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(awaittest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); string(body) != "yes" || err != nil {
		t.Errorf("answered %q, %v", body, err)
	}
	return conn, in
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n"

// TestRequestWithABodyThatNeverComesKeepsNoConnection: the request is answered, and the
// connection closed at once.
func TestRequestWithABodyThatNeverComesKeepsNoConnection(t *testing.T) {
	addr := serve(t)
	for _, head := range []string{"Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"} {
		_, in := ask(t, addr, get+head+"\r\n")
		if _, err := in.ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q: the connection is open: %v", head, err)
		}
	}
}

// TestConnectionsAreBounded: later connections take the places of earlier ones, and the
// connection in use gets another answer.
func TestConnectionsAreBounded(t *testing.T) {
	addr := serve(t)
	first, in := ask(t, addr, get+"\r\n")
	var last net.Conn
	for range lobby.Max {
		last, _ = ask(t, addr, get+"\r\n")
	}
	if err := first.SetDeadline(time.Now().Add(awaittest.Patience)); err != nil { // opening the others may have taken longer
		t.Fatal(err)
	}
	if _, err := in.ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the first of %d connections is open: %v", lobby.Max+1, err)
	}
	first.Close()
	if _, err := io.WriteString(last, get+"\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(last), nil); err != nil {
		t.Errorf("the last one is not answered again: %v", err)
	}
}

// TestPagesOfOtherSitesAreForeign, when a browser reveals it only by the headers of a form
// or an image.
func TestPagesOfOtherSitesAreForeign(t *testing.T) {
	beyond := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8080}
	for _, c := range []struct {
		name, value string
		foreign     bool
	}{
		{"Origin", "http://zk1:8080", false}, {"Referer", "http://ZK1:8080/commands", false}, {"Accept", "*/*", false},
		{"Origin", "http://evil.example", true}, {"Referer", "http://evil.example/", true}, {"Origin", "null", true}, {"Origin", ":", true},
		{"Sec-Fetch-Site", "cross-site", true},
	} {
		r := httptest.NewRequest("GET", "http://zk1:8080/commands/stat_reset", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(beyond)))
		r.Header.Set(c.name, c.value)
		if why := Foreign(r); (why != "") != c.foreign {
			t.Errorf("%s: %s: %q", c.name, c.value, why)
		}
	}
}

// TestPagesOfOtherSitesAreForeignOnTheLoopback: also if the browser is old or does not send
// the site of a page, as with 0.0.0.0, an address that in some browsers reaches the
// loopback.
func TestPagesOfOtherSitesAreForeignOnTheLoopback(t *testing.T) {
	own := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	for _, c := range []struct {
		host, name, value string
		foreign           bool
	}{
		{"127.0.0.1:8080", "Accept", "*/*", false}, {"127.0.0.1:8080", "Origin", "http://127.0.0.1:8080", false},
		{"localhost:9000", "Referer", "http://localhost:9000/commands", false}, {"[::1]:8080", "Sec-Fetch-Site", "none", false},
		{"127.0.0.1:8080", "Referer", "http://evil.example/", true}, {"127.0.0.1:8080", "Origin", "http://evil.example", true},
		{"localhost:8080", "Origin", "null", true}, {"127.0.0.1:8080", "Sec-Fetch-Site", "cross-site", true},
		{"0.0.0.0:8080", "Referer", "http://evil.example/", true}, {"0.0.0.0:8080", "Accept", "*/*", true},
		{"[::]:8080", "Accept", "*/*", true}, {"[::ffff:0.0.0.0]:8080", "Accept", "*/*", true},
	} {
		r := httptest.NewRequest("GET", "http://"+c.host+"/commands/stat_reset", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(own)))
		r.Header.Set(c.name, c.value)
		if why := Foreign(r); (why != "") != c.foreign {
			t.Errorf("%s: %s: %s: %q", c.host, c.name, c.value, why)
		}
	}
}
