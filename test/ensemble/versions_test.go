//go:build linux && interop && versions

package ensemble

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// Each server of an ensemble, including an observer, changes from an earlier version to
// this one, back, and to this one again, while clients write, candidates elect, and members
// are replaced: no session is lost.
func TestUpgradeAndDowngrade(t *testing.T) {
	binary := os.Getenv("CONCLAVE_EARLIER")
	if binary == "" {
		t.Fatal("CONCLAVE_EARLIER names no binary of an earlier version")
	}
	binary, err := filepath.Abs(binary)
	must(t, err)
	now, earlier := servers.Conclave(), servers.ConclaveAt(binary)
	s := newScene(t, servers.EnsembleOptions{Kinds: []servers.Kind{earlier, earlier, earlier, earlier}, Observers: []int{4},
		Reconfig: true, Config: []string{servers.SuperDigest, "snapCount=500"}})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 3, Readers: 1, Contenders: 2, Pause: 2 * time.Millisecond})
	s.electing = startElecting(t, s.e.Addrs())
	s.await(200)
	for _, k := range []servers.Kind{now, earlier, now} {
		leader := s.leader()
		learners := s.learnersOf(leader)
		for _, m := range append(learners, leader) {
			must(t, m.Become(t.Context(), k))
			s.awaitRole(m)
			s.await(100)
		}
		for _, m := range s.learnersOf(s.leader()) {
			if !m.Observer {
				s.grow(k, m)
				break
			}
		}
	}
	s.finishRolling()
	if n := s.lost(); n != 0 {
		t.Errorf("%d sessions were lost", n)
	}
}

func (s *scene) learnersOf(leader *servers.Member) []*servers.Member {
	var learners []*servers.Member
	for _, m := range s.running() {
		if m != leader {
			learners = append(learners, m)
		}
	}
	return learners
}
