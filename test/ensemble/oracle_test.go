//go:build linux && interop

package ensemble

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// In an ensemble of one server of each kind, one is killed and the other continues with the
// oracle's permission; then the other way round.
func TestOracleOfTwoServers(t *testing.T) {
	for _, line := range []string{"G J9", "J9 G", "G G"} {
		t.Run(line, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, line), Oracle: true})
			for _, m := range s.e.Members {
				must(t, m.Says(false))
			}
			must(t, servers.StartAll(t.Context(), s.e.Members...))
			s.leader()
			s.work(workload.Options{Writers: 2, Readers: 1, Pause: time.Millisecond, StaleAllowed: true})
			s.await(200)
			for _, goes := range s.e.Members {
				stays := s.e.Member(3 - goes.ID)
				must(t, goes.Kill())
				must(t, stays.Says(true))
				must(t, stays.AwaitMode(t.Context(), "leader"))
				s.await(200)
				must(t, goes.Start(t.Context()))
				s.awaitServing(goes)
				must(t, stays.Says(false))
				s.await(200)
			}
			s.check()
		})
	}
}
