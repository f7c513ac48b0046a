//go:build conformance && linux

package consul_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/consul"
	"github.com/conclave-project/conclave/election/backend/internal/overlap"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/hashicorp/consul/api"
)

func TestMain(m *testing.M) {
	fresh := storetest.Opener(consul.Open).Fresh
	if child, code := overlap.Main(fresh); child {
		os.Exit(code)
	}
	os.Exit(electiontest.Main(m, fresh))
}

// lease is the session_ttl_min of the servers under test.
const lease = 2 * time.Second

func open(t testing.TB, url string) election.Backend {
	return storetest.Opener(consul.Open).Open(t, url)
}

// operator is a client that is none of the candidates.
func operator(t testing.TB, url string) *api.Client {
	t.Helper()
	config := api.DefaultConfig()
	config.Address = stores.At(url).Addr
	client, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestConsulBackendPassesTheSuite(t *testing.T) {
	electiontest.Run(t, electiontest.Suite{
		Open: open, URL: func(t testing.TB) string { return stores.Start(t, "consul").URL }, Lease: lease, Store: "Consul " + stores.Version("consul"), Elections: 1000,
		Proxy: func(t testing.TB, url string) (string, electiontest.Link) {
			proxied, own := link(t, url)
			return proxied, own.(electiontest.Link)
		},
		Delete: deleteAll,
		Left:   left,
		Restart: func(t testing.TB, url string) {
			if err := stores.At(url).Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// deleteAll deletes everything that belongs to an election.
func deleteAll(t testing.TB, url, name string) {
	for _, prefix := range []string{name + "/.lock", "conclave/elections/" + name + "/"} {
		if _, err := operator(t, url).KV().DeleteTree(prefix, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// left counts what the store keeps of candidates.
func left(t testing.TB, url string) int {
	client := operator(t, url)
	sessions, _, err := client.Session().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	pairs, _, err := client.KV().List("", nil)
	if err != nil {
		t.Fatal(err)
	}
	count := len(sessions)
	for _, pair := range pairs {
		if !strings.HasSuffix(pair.Key, "/history") && (!strings.HasSuffix(pair.Key, "/.lock") || pair.Session != "") {
			count++
		}
	}
	return count
}
