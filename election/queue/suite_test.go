package queue

import (
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// TestSuite runs the suite for all backends on a store in memory.
func TestSuite(t *testing.T) {
	var stores sync.Map
	electiontest.Run(t, electiontest.Suite{
		URL: func(t testing.TB) string {
			m := newMemory()
			m.now = electiontest.VirtualClock(1).Now
			stores.Store(t.Name(), m)
			return t.Name()
		},
		Open: func(t testing.TB, url string) election.Backend {
			store, _ := stores.Load(url)
			b := New(store.(*memory), Options{Clock: electiontest.VirtualClock(1)})
			t.Cleanup(func() { _ = b.Close() })
			return b
		},
		InMemory: true, Virtual: true,
	})
}
