//go:build linux && interop

package ensemble

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// Followers of both kinds serve observers of both kinds in place of the leader: a client of
// each observer does every kind of operation, the observer masters are killed one after the
// other, and so is the leader.
func TestObserverMasters(t *testing.T) {
	for _, mix := range []struct{ name, kinds string }{
		{"observes by way of Java masters", "J9 J9 J9 G G"},
		{"observed by Java", "G G G J9 J9"},
		{"observes by way of Java masters, and leads", "J9 J9 G G J9"},
		{"alone", "G G G G G"},
	} {
		t.Run(mix.name, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, mix.kinds), Observers: []int{4, 5}, Masters: true})
			s.startUnder(3)
			s.work(workload.Options{Writers: 2, Readers: 1, Pause: time.Millisecond, StaleAllowed: true})
			s.java = startJava(t, servers.Apache39, s.load, s.e.Addrs())
			s.await(200)
			s.startRest()
			for _, m := range s.e.Members {
				everyOperation(t, m)
				syncsAmongWrites(t, m)
			}
			for _, id := range []int{4, 5} {
				s.ends(s.e.Member(id))
				master := s.masterOf(id, 3)
				if n := s.metric(master, "zk_synced_observers"); n < 1 {
					t.Errorf("server %d serves %v observers, and observer %d", master.ID, n, id)
				}
				must(t, master.Kill())
				s.await(200)
				s.startRest()
				s.masterOf(id, 3)
			}
			must(t, s.e.Member(3).Kill())
			leader := s.leader().ID
			s.await(200)
			s.startRest()
			for _, id := range []int{4, 5} {
				s.masterOf(id, leader)
				syncsAmongWrites(t, s.e.Member(id))
			}
			s.await(200)
			s.check()
			if n := s.lost(); n != 0 {
				t.Errorf("%d sessions were lost", n)
			}
		})
	}
}

// The same over TLS: the observer port authenticates itself as the leader's port does.
func TestObserverMastersOverTLS(t *testing.T) {
	for _, mix := range []struct{ name, kinds string }{
		{"observes by way of Java masters", "J9 J9 J9 G G"},
		{"observed by Java", "G G G J9 G"},
	} {
		t.Run(mix.name, func(t *testing.T) {
			config := securedFor(t, "localhost", "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
			s := newScene(t, servers.EnsembleOptions{
				Kinds: kinds(t, mix.kinds), Observers: []int{4, 5}, Masters: true, Config: append(config, "sslQuorum=true"),
			})
			s.startUnder(3)
			s.work(workload.Options{Writers: 2, Readers: 1, Pause: time.Millisecond, StaleAllowed: true})
			s.await(200)
			s.startRest()
			for _, id := range []int{4, 5} {
				everyOperation(t, s.e.Member(id))
				must(t, s.masterOf(id, 3).Kill())
				s.await(100)
				s.startRest()
				s.masterOf(id, 3)
				syncsAmongWrites(t, s.e.Member(id))
			}
			s.check()
		})
	}
}

// masterOf waits until a server other than the leader serves an observer.
func (s *scene) masterOf(id, leader int) *servers.Member {
	s.t.Helper()
	var master int
	waitFor(s.t, fmt.Sprintf("observer %d has a master", id), func() bool {
		master = int(s.metric(s.e.Member(id), "zk_observer_master_id"))
		return master > 0 && s.e.Member(master).Running()
	})
	if master == leader {
		s.t.Fatalf("observer %d is served by the leader", id)
	}
	return s.e.Member(master)
}

// metric returns a metric of mntr, -1 if it is missing.
func (s *scene) metric(m *servers.Member, name string) float64 {
	s.t.Helper()
	all, err := servers.Metrics(m.Addr)
	if n, ok := all[name]; ok && err == nil {
		return n
	}
	return -1
}

// A session moves among observers and their masters. Late requests from the server that it
// has left are refused, even if both servers have the same master.
func TestSessionsMoveBehindMasters(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G G G G J9"), Observers: []int{4, 5}, Masters: true})
	s.startUnder(3)
	s.startRest()
	s.moveAndEnd()
}
