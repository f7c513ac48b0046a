package record_test

import (
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

func TestSuite(t *testing.T) {
	var stores sync.Map
	electiontest.Run(t, electiontest.Suite{
		URL: func(t testing.TB) string {
			stores.Store(t.Name(), record.NewMemory(electiontest.VirtualClock(1)))
			return t.Name()
		},
		Open: func(_ testing.TB, url string) election.Backend {
			store, _ := stores.Load(url)
			return record.New(store.(*record.Memory), record.Options{Clock: electiontest.VirtualClock(1)})
		},
		InMemory: true, Virtual: true,
	})
}
