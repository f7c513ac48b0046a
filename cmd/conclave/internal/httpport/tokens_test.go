package httpport

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	tokenA = "0123456789abcdef"
	tokenB = "fedcba9876543210!"
)

// tokenFile writes a file with tokens.
func tokenFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesWithTokensAreChecked(t *testing.T) {
	long := strings.Repeat("x", tokenBytesMax)
	for _, c := range []struct{ name, content, first, problem string }{
		{"one", tokenA, tokenA, ""},
		{"two, with what does not count", "\ufeff# the old one last\r\n\r\n  " + tokenB + " \r\n" + tokenA + "\n", tokenB, ""},
		{"the longest", long, long, ""},
		{"too long", long + "x", "", ":1: a token has 16 to 1024 visible ASCII characters"},
		{"too short", tokenA + "\n" + tokenA[1:], "", ":2: a token has 16 to 1024 visible ASCII characters"},
		{"a space in it", tokenA + " " + tokenA, "", ":1: a token has"},
		{"not ASCII", tokenA + "é", "", ":1: a token has"},
		{"nothing", "", "", " has 0 tokens: 1 to 100 are allowed, a line each"},
		{"remarks alone", "# " + tokenA + "\n\n", "", " has 0 tokens"},
		{"many", strings.Repeat(tokenA+"\n", tokensMax), tokenA, ""},
		{"too many", strings.Repeat(tokenA+"\n", tokensMax+1), "", " has 101 tokens"},
		{"a large file", strings.Repeat("#\n", tokensBytesMax/2+1), "", ": a file with tokens has at most 65536 bytes"},
	} {
		tokens, err := ReadTokens(tokenFile(t, c.content))
		switch {
		case c.problem == "" && err != nil, c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: %v, want %q", c.name, err, c.problem)
		case c.problem == "" && tokens.First() != c.first:
			t.Errorf("%s: the first one is %.20q", c.name, tokens.First())
		case c.problem != "" && strings.Contains(err.Error(), tokenA[1:]):
			t.Errorf("%s: the error shows a token: %v", c.name, err)
		}
	}
	if _, err := ReadTokens(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := ReadTokens(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if (*Tokens)(nil).First() != "" {
		t.Error("no tokens have a first one")
	}
}

// demanding opens a port that needs tokens, and returns its URL and its log.
func demanding(t *testing.T, tokens *Tokens) (string, *bytes.Buffer) {
	t.Helper()
	p, err := Listen("test", "127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Require(tokens, "/open")
	var log bytes.Buffer
	p.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "yes, ", r.URL.Path) }),
		time.Hour, slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(p.Close)
	return "http://" + p.Addr().String(), &log
}

// status asks for a path with headers, each NAME: VALUE.
func status(t *testing.T, url string, headers ...string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Add(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch refused := response.StatusCode == http.StatusUnauthorized; {
	case err != nil:
		t.Fatal(err)
	case refused && (response.Header.Get("WWW-Authenticate") == "" || string(body) != noToken+"\n"):
		t.Errorf("%v: %q, %v", headers, body, response.Header)
	case !refused && !strings.HasPrefix(string(body), "yes"):
		t.Errorf("%v: %s, %q", headers, response.Status, body)
	}
	return response.StatusCode
}

// TestRequestsShowATokenOfThePort is httpport-H5.
func TestRequestsShowATokenOfThePort(t *testing.T) {
	tokens, err := ReadTokens(tokenFile(t, tokenA+"\n"+tokenB+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	url, log := demanding(t, tokens)
	basic := func(user, password string) string {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(user, password)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for _, c := range []struct {
		path    string
		headers []string
		want    int
	}{
		{"/", nil, 401},
		{"/open", nil, 200},
		{"/open?x=y", nil, 200},
		{"/open/", nil, 401},
		{"//open", nil, 401},
		{"/x/../open", nil, 401},
		{"/", []string{"Authorization: Bearer " + tokenA}, 200},
		{"/", []string{"Authorization: bearer  " + tokenB}, 200},
		{"/", []string{"Authorization: Bearer " + tokenA + "x"}, 401},
		{"/", []string{"Authorization: Bearer " + tokenA[1:]}, 401},
		{"/", []string{"Authorization: Bearer "}, 401},
		{"/", []string{"Authorization: Bearer"}, 401},
		{"/", []string{"Authorization: " + tokenA}, 401},
		{"/", []string{"Authorization: digest " + tokenA}, 401},
		{"/", []string{basic("anybody", tokenA)}, 200},
		{"/", []string{basic("", tokenB)}, 200},
		{"/", []string{basic(tokenA, "")}, 401},
		{"/", []string{basic("anybody", tokenA+"x")}, 401},
		{"/", []string{"Authorization: Basic " + tokenA}, 401},
		{"/", []string{"X-Conclave-Token: " + tokenA}, 200},
		{"/", []string{"X-Conclave-Token: " + tokenA, "Authorization: digest super:secret"}, 200},
		{"/", []string{"X-Conclave-Token: " + tokenA + tokenB}, 401},
		{"/?token=" + tokenA, nil, 401},
	} {
		if got := status(t, url+c.path, c.headers...); got != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.headers, got, c.want)
		}
	}
	if lines := strings.Count(log.String(), "a request without a valid token was refused"); lines != 1 || strings.Contains(log.String(), tokenA[1:]) {
		t.Errorf("%d lines of\n%s", lines, log)
	}
}

// A token that is taken out of the file is refused from the next look on. While the file cannot be
// read, the last tokens stay valid, and one line of the log says so.
func TestTokensFollowTheirFile(t *testing.T) {
	path := tokenFile(t, tokenA+"\n")
	tokens, err := ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	look := func(after time.Duration, want string, problem bool) {
		t.Helper()
		now = now.Add(after)
		sums, err := tokens.fresh(now)
		for _, token := range []string{tokenA, tokenB} {
			if valid([]string{token}, sums) != (token == want) {
				t.Errorf("%s is valid or not, want %s", token, want)
			}
		}
		if (err != nil) != problem {
			t.Errorf("told %v, want something: %v", err, problem)
		}
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	look(tokensEvery, tokenA, false)
	write(tokenB)
	look(tokensEvery-1, tokenA, false)
	look(1, tokenB, false)
	write("short")
	look(tokensEvery, tokenB, true)
	look(tokensEvery, tokenB, false) // told
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(tokensEvery, tokenB, true) // another reason
	write(tokenA)
	look(tokensEvery, tokenA, false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(tokensEvery, tokenA, true) // again after a success
	tokens.looking.Lock()           // another request waits for the disk: this one does not
	look(tokensEvery, tokenA, false)
	tokens.looking.Unlock()
	if tokens.First() != tokenA {
		t.Errorf("the first one is %q", tokens.First())
	}
}
