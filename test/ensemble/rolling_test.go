//go:build linux && interop

package ensemble

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// Every server is replaced by one of the other kind, on its directory, and back, while
// clients in Go and Java write and candidates elect. The cost is compared with a rolling
// restart of Apache's servers, measured in the same way just before.
func TestRollingReplacement(t *testing.T) {
	java := []string{"J9", "J8", "J9"}
	var allowed int64
	t.Run("Java restarted, for comparison", func(t *testing.T) {
		s := rolling(t, java)
		s.replaceAll(java)
		s.finishRolling()
		allowed = s.lost()
	})
	t.Run("Java replaced and back", func(t *testing.T) {
		s := rolling(t, java)
		s.replaceAll([]string{"G", "G", "G"})
		for _, m := range s.e.Members {
			everyOperation(t, m)
		}
		s.replaceAll(java)
		s.finishRolling()
		if n := s.lost(); n > allowed {
			t.Errorf("%d sessions were lost; a rolling restart of Java servers lost %d", n, allowed)
		}
	})
}

// rolling starts an ensemble of three with its clients.
func rolling(t *testing.T, line []string) *scene {
	t.Helper()
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, line[0]+" "+line[1]+" "+line[2])})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 3, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.java = startJava(t, servers.Apache38, s.load, s.e.Addrs())
	s.electing = startElecting(t, s.e.Addrs())
	s.await(200)
	return s
}

// replaceAll changes the kind of each server: first the followers, then the leader.
func (s *scene) replaceAll(line []string) {
	s.t.Helper()
	leader := s.leader()
	order := []*servers.Member{}
	for _, m := range s.e.Members {
		if m != leader {
			order = append(order, m)
		}
	}
	for _, m := range append(order, leader) {
		began, from := time.Now(), m.Kind.Name()
		must(s.t, m.Become(s.t.Context(), kind(s.t, line[m.ID-1])))
		s.awaitRole(m)
		s.await(100)
		s.t.Logf("server %d, %s to %s: %.1f s, longest gap of one client %d ms", m.ID, from, m.Kind.Name(),
			time.Since(began).Seconds(), s.load.GapSince(began).Milliseconds())
	}
}

// awaitRole waits until a server serves in any role.
func (s *scene) awaitRole(m *servers.Member) {
	s.t.Helper()
	if s.leader() != m {
		s.awaitServing(m)
	}
}

func (s *scene) finishRolling() {
	s.t.Helper()
	terms := s.electing.finish()
	s.check()
	s.t.Logf("%d sessions lost, %d leaderships of candidates", s.lost(), terms)
	if terms < 10 {
		s.t.Errorf("%d leaderships: the elections stalled", terms)
	}
}

// A reconfig removes the leader, and appoints one of Apache's servers. Until the next
// election these servers are in no election round, but a server that replaces a follower
// must still be able to join them.
func TestReplacementAfterAReconfigHasAppointedTheLeader(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "J9 J9 J9 J9"), Reconfig: true, Config: []string{servers.SuperDigest}})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 2, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(100)
	s.leave(s.leader())
	leader := s.leader()
	for _, m := range s.running() {
		if m == leader {
			continue
		}
		must(t, m.Become(t.Context(), kind(t, "G")))
		s.awaitServing(m)
		s.await(100)
		if s.leader() != leader {
			t.Fatal("there was an election: the case is not that one")
		}
		break
	}
	s.check()
}
