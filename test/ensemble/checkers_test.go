//go:build linux && interop

package ensemble

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// Without this test, a check that checks nothing would pass everywhere.
func TestTheCheckersFindWhatSomebodyTampersWith(t *testing.T) {
	s, err := servers.Start(t.Context(), kind(t, "J9"), servers.Options{})
	must(t, err)
	t.Cleanup(func() { s.Kill() })
	l, err := workload.Start(t.Context(), workload.Options{Servers: s.Addr})
	must(t, err)
	t.Cleanup(l.Close)
	must(t, l.Await(t.Context(), 100))
	l.Finish()
	addrs := []string{s.Addr}
	if breaches, err := l.Verify(t.Context(), addrs); err != nil || len(breaches) != 0 {
		t.Fatalf("before: %q, %v", breaches, err)
	}
	c, err := client.Dial(t.Context(), s.Addr, client.Options{})
	must(t, err)
	defer c.Close()
	must(t, c.Delete(t.Context(), workload.Root+"/a/w0/00000001", -1))
	_, _, err = c.Create(t.Context(), workload.Root+"/a/w1/other", nil, client.CreateOptions{})
	must(t, err)
	_, err = c.Set(t.Context(), workload.Root+"/a/r2", []byte("1"), -1)
	must(t, err)
	sessions, _, err := c.Children(t.Context(), workload.Root+"/a/sessions")
	must(t, err)
	must(t, c.Delete(t.Context(), workload.Root+"/a/sessions/"+sessions[0], -1))
	breaches, err := l.Verify(t.Context(), addrs)
	must(t, err)
	all := strings.Join(breaches, "\n")
	for _, want := range []string{"lost: /load/a/w0/00000001", "never written: /load/a/w1/other", `/load/a/r2 holds "1"`, "is gone, its session lives"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}
