//go:build linux

package supervise_test

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
)

// fastTicks lets sessions expire soon.
func fastTicks(config *server.Config) { config.TickTime = 100 * time.Millisecond }

// TestNobodyActsBesideANewLeaderOfAStore: here the lock is on another machine,
// and passes on by itself when the lease has run out, so the command must be
// dead by then. Its grandchild has a session of its own and ignores SIGTERM.
func TestNobodyActsBesideANewLeaderOfAStore(t *testing.T) {
	for name, end := range map[string]func(*runner){
		"terminated": func(r *runner) { r.signal(syscall.SIGTERM) },
		"killed":     func(r *runner) { r.signal(syscall.SIGKILL) },
		"frozen":     func(r *runner) { r.signal(syscall.SIGSTOP) },
		"guardian killed": func(r *runner) {
			_ = syscall.Kill(r.guardian(), syscall.SIGKILL)
		},
		"guardian frozen, then terminated": func(r *runner) {
			_ = syscall.Kill(r.guardian(), syscall.SIGSTOP)
			r.signal(syscall.SIGTERM)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := servertest.Start(t, fastTicks)
			path := filepath.Join(t.TempDir(), "acting")
			o := testOrder{Servers: servers, ID: "a", Args: acting(path), Lease: 2 * time.Second,
				Grace: 200 * time.Millisecond}
			first := start(t, o)
			awaittest.Until(t, "first", func() bool { return len(lines(path)) > 0 })
			old := lines(path)[0]
			second := start(t, o)
			end(first)
			awaittest.Until(t, "second", func() bool { all := lines(path); return all[len(all)-1] != old })
			before, _ := strconv.Atoi(old)
			all := lines(path) // read once, because it is still growing
			if after, _ := strconv.Atoi(all[len(all)-1]); after <= before {
				t.Errorf("token %d after %d", after, before)
			}
			seen := len(all)
			awaittest.Until(t, "the second acts on", func() bool { return len(lines(path)) > seen+20 })
			judgeActing(t, path)
			second.signal(syscall.SIGTERM)
			second.code()
			judgeGone(t, path)
			judgeActing(t, path)
		})
	}
}
