package fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// numbers serves a number behind a fence: GET reads it, PUT replaces it.
func numbers(t *testing.T, f *fence.Fence) *httptest.Server {
	number := "0"
	s := httptest.NewServer(f.Handler("number", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			number = string(text)
		}
		_, _ = io.WriteString(w, number)
	})))
	t.Cleanup(s.Close)
	return s
}

// send sends a request and returns the number, or the reason for a refusal.
func send(ctx context.Context, c *http.Client, method, url, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	if err := fence.CheckResponse(answer); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s (%v)", answer.Status, text, err)
	}
	return strconv.Atoi(string(text))
}

func TestFenceOverHTTPLosesNoUpdate(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource {
		f := fence.New()
		s := numbers(t, f)
		c := &http.Client{Transport: &fence.Transport{}}
		return fencetest.Resource{
			Claim: func(ctx context.Context, token election.Token) (int, error) {
				return send(fence.WithToken(ctx, token), c, http.MethodGet, s.URL, "")
			},
			Write: func(ctx context.Context, token election.Token, value int) error {
				_, err := send(fence.WithToken(ctx, token), c, http.MethodPut, s.URL, strconv.Itoa(value))
				return err
			},
			Read: func(ctx context.Context) (int, error) {
				return send(fence.WithToken(ctx, f.Seen("number")), c, http.MethodGet, s.URL, "")
			},
		}
	})
}

func TestHandlerAnswersWhyItRefuses(t *testing.T) {
	f := fence.New()
	s := numbers(t, f)
	if err := f.Check("number", 34); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token  string
		status int
		seen   string
	}{
		{"34", http.StatusOK, ""},
		{"35", http.StatusOK, ""},
		{"34", http.StatusPreconditionFailed, "35"},
		{"", http.StatusPreconditionRequired, ""},
		{"0", http.StatusPreconditionRequired, ""},
		{"-1", http.StatusBadRequest, ""},
		{"18446744073709551616", http.StatusBadRequest, ""},
		{"7 ", http.StatusPreconditionFailed, "35"}, // spaces around a header do not count
		{"1e3", http.StatusBadRequest, ""},
		{"36|35", http.StatusBadRequest, ""}, // as from a proxy that adds a second token
	} {
		r, _ := http.NewRequest(http.MethodGet, s.URL, nil)
		if c.token != "" {
			r.Header[fence.Header] = strings.Split(c.token, "|")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.status || answer.Header.Get(fence.Header) != c.seen {
			t.Errorf("token %q: %s, seen %q", c.token, answer.Status, answer.Header.Get(fence.Header))
		}
	}
}

func TestTokenThatCannotBeStoredIsNotAccepted(t *testing.T) {
	f, err := fence.Open(filepath.Join(t.TempDir(), "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	s := numbers(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := fence.WithToken(awaittest.Within(t), 5)
	_, err = send(ctx, &http.Client{Transport: &fence.Transport{}}, http.MethodPut, s.URL, "1")
	if err == nil || !strings.HasPrefix(err.Error(), "503") {
		t.Errorf("answered %v", err)
	}
}

// A leader is frozen during a request: it sends no more of the body, or reads nothing of the
// answer. Its kernel keeps the connection. Close does not wait for this leader, either.
func TestFrozenClientKeepsNoNewerOneOut(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, blocks := range []string{"reading", "writing", "reading, closed", "writing, closed"} {
			t.Run(version+" "+blocks, func(t *testing.T) {
				blocks, closed := strings.CutSuffix(blocks, ", closed")
				f, served := open(t, filepath.Join(t.TempDir(), "tokens")), make(chan string, 1)
				s := httptest.NewUnstartedServer(f.Handler("r", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if token, _ := fence.TokenOf(r.Context()); token == 2 {
						return
					}
					served <- r.Proto
					var err error
					for chunk := make([]byte, 1<<16); err == nil; {
						if blocks == "reading" {
							_, err = r.Body.Read(chunk)
						} else {
							_, err = w.Write(chunk)
						}
					}
				})))
				s.EnableHTTP2 = version == "HTTP/2.0"
				s.StartTLS()
				defer s.Close()
				ctx, cancel := context.WithCancel(awaittest.Within(t))
				defer cancel() // the leader goes on
				c := &http.Client{Transport: &fence.Transport{Base: s.Client().Transport}}
				body, more := io.Pipe()
				defer more.Close()
				go func() {
					r, _ := http.NewRequestWithContext(fence.WithToken(ctx, 1), http.MethodPut, s.URL, body)
					if answer, err := c.Do(r); err == nil {
						<-ctx.Done()
						_ = answer.Body.Close()
					}
				}()
				if proto := <-served; proto != version {
					t.Fatal(proto)
				}
				if closed {
					if err := f.Close(); err != nil {
						t.Error(err)
					}
					return
				}
				r, _ := http.NewRequestWithContext(fence.WithToken(ctx, 2), http.MethodPut, s.URL, nil)
				answer, err := c.Do(r)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("the newer one is kept out: %v", err)
				}
				_ = answer.Body.Close()
			})
		}
	}
}

// A connection on which a request was dismissed serves no other request: the server takes the
// end of its reads for the end of the client, and ends all contexts.
func TestRequestAfterADismissedOneIsServed(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprint("answer begun: ", begun), func(t *testing.T) {
			entered := make(chan struct{})
			s := httptest.NewServer(fence.New().Handler("r", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if token, _ := fence.TokenOf(r.Context()); token == 1 {
					if begun {
						w.Header().Set("Content-Length", "5") // the answer is complete
						_, _ = io.WriteString(w, "ended")
						w.(http.Flusher).Flush()
					}
					close(entered)
					<-r.Context().Done()
				}
				if !begun {
					_, _ = fmt.Fprint(w, "ended")
				}
				if token, _ := fence.TokenOf(r.Context()); token > 1 && r.Context().Err() != nil {
					t.Errorf("the context had ended before the request began: %v", context.Cause(r.Context()))
				}
			})))
			defer s.Close()
			ask := func(c *http.Client, token election.Token) {
				r, _ := http.NewRequestWithContext(awaittest.Within(t), http.MethodGet, s.URL, nil)
				r.Header.Set(fence.Header, fmt.Sprint(token))
				answer, err := c.Do(r)
				if err != nil {
					t.Errorf("token %d: %v", token, err)
					return
				}
				text, err := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK || len(text) == 0 && (token == 1 || !begun) {
					t.Errorf("token %d: %s %q, %v", token, answer.Status, text, err)
				}
			}
			one, two := &http.Client{Transport: &http.Transport{}}, &http.Client{Transport: &http.Transport{}}
			defer one.CloseIdleConnections()
			defer two.CloseIdleConnections()
			first := make(chan struct{})
			go func() {
				defer close(first)
				ask(one, 1)
			}()
			<-entered
			ask(two, 2)
			<-first
			for range 2 {
				ask(one, 3)
			}
		})
	}
}

// The context of the leader's function is all that a client needs, and nothing is sent after
// the leadership.
func TestTransportSendsTheTokenOfTheLeadership(t *testing.T) {
	f := fence.New()
	s := numbers(t, f)
	c := &http.Client{Transport: &fence.Transport{}}
	if _, err := send(awaittest.Within(t), c, http.MethodPut, s.URL, "1"); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("without a leadership: %v", err)
	}
	e, err := election.New(electiontest.NewStore(nil), "number", election.Options{Once: true, ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Run(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
		if _, err := send(ctx, c, http.MethodPut, s.URL, "7"); err != nil {
			t.Error(err)
		}
		lead.Resign()
		<-ctx.Done()
		late := context.WithoutCancel(ctx)
		if _, err := send(late, c, http.MethodPut, s.URL, "8"); !errors.Is(err, election.ErrResigned) {
			t.Errorf("after the end: %v", err)
		}
		return nil
	})
	if err != nil || f.Seen("number") != 1 {
		t.Errorf("%v, seen %d", err, f.Seen("number"))
	}
}
