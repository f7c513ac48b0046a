//go:build linux && robust

package robust

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

// sessionTimeout is long enough for sessions to outlive a test's pauses.
const sessionTimeout = 60 * time.Second

// kind returns the kind of server under test.
func kind(t *testing.T) servers.Kind {
	t.Helper()
	chosen, err := servers.Chosen("ROBUST_KIND")
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

// promises reports whether the kind promises the limits on memory.
func promises(k servers.Kind) bool { return k == servers.Conclave() }

// start starts the server under test; it ends with the test.
func start(t *testing.T, config ...string) *servers.Server {
	t.Helper()
	s, err := servers.Start(t.Context(), kind(t), servers.Options{
		HeapMiB: 1536, // for a million watches on Apache's server
		Config:  append([]string{"maxSessionTimeout=120000"}, config...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", s.LogTail(2000))
		}
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, s *servers.Server) *probe.Conn {
	t.Helper()
	c, err := probe.Dial(s.Addr, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Cut)
	return c
}

func rss(t *testing.T, s *servers.Server) int64 {
	t.Helper()
	bytes, err := s.RSS()
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkAlive fails the test if the server has ended or has logged a panic.
func checkAlive(t *testing.T, s *servers.Server) {
	t.Helper()
	select {
	case <-s.Ended():
		t.Fatalf("the server has ended: %v", s.ExitError())
	default:
	}
	for _, sign := range []string{"panic:", "fatal error:", "runtime error", "goroutine "} {
		if strings.Contains(s.Log(), sign) {
			t.Errorf("the server's log has %q", sign)
		}
	}
}

// together runs n functions concurrently, waits for all of them, and returns the errors.
func together(n int, f func(i int) error) []error {
	results := make(chan error, n)
	for i := range n {
		go func() { results <- f(i) }()
	}
	var errs []error
	for range n {
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
