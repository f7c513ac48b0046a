package electiontest_test

import (
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

func TestMemoryStorePassesTheSuite(t *testing.T) {
	stores := map[string]*electiontest.Store{}
	electiontest.Run(t, electiontest.Suite{
		Open: func(_ testing.TB, url string) election.Backend { return stores[url] },
		URL: func(t testing.TB) string {
			stores[t.Name()] = electiontest.NewStore(nil)
			return t.Name()
		},
		Delete:   func(_ testing.TB, url, name string) { stores[url].Take(name) },
		Left:     func(_ testing.TB, url string) int { return stores[url].Len() },
		InMemory: true,
	})
}
