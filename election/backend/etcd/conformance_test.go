//go:build conformance && linux

package etcd_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/backend/internal/overlap"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	fresh := storetest.Opener(etcd.Open).Fresh
	if child, code := overlap.Main(fresh); child {
		os.Exit(code)
	}
	os.Exit(electiontest.Main(m, fresh))
}

// lease is the shortest lease that a server with default timeouts grants.
const lease = 2 * time.Second

var storeName = "etcd " + stores.Version("etcd")

func open(t testing.TB, url string) election.Backend { return storetest.Opener(etcd.Open).Open(t, url) }

// operator is a client that is none of the candidates.
func operator(t testing.TB, url string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{stores.At(url).Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestEtcdBackendPassesTheSuite(t *testing.T) {
	electiontest.Run(t, electiontest.Suite{
		Open: open, URL: func(t testing.TB) string { return stores.Start(t, "etcd").URL }, Lease: lease, Store: storeName, Elections: 1000,
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
	for _, prefix := range []string{name + "/", "/conclave/line/" + name + "//"} {
		if _, err := operator(t, url).Delete(awaittest.Within(t), prefix, clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"nomination/", "request/", "history/"} {
		if _, err := operator(t, url).Delete(awaittest.Within(t), "/conclave/"+kind+name); err != nil {
			t.Fatal(err)
		}
	}
}

// left counts what the store keeps of candidates.
func left(t testing.TB, url string) int {
	client := operator(t, url)
	leases, err := client.Leases(awaittest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.Get(awaittest.Within(t), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	count := len(leases.Leases)
	for _, kv := range all.Kvs {
		if !strings.HasPrefix(string(kv.Key), "/conclave/history/") {
			count++
		}
	}
	return count
}

func claim(id string, lease time.Duration) election.Claim {
	return election.Claim{Election: "e", ID: id, Nonce: fmt.Sprintf("%032x", id), Lease: lease}
}

// candidates returns the candidates in the election "e", the first one first.
func candidates(t testing.TB, c *clientv3.Client) []*mvccpb.KeyValue {
	t.Helper()
	answer, err := c.Get(awaittest.Within(t), "e/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	return answer.Kvs
}

// awaitQueue returns the queue once it has count candidates.
func awaitQueue(t testing.TB, c *clientv3.Client, count int) []*mvccpb.KeyValue {
	t.Helper()
	var now []*mvccpb.KeyValue
	awaittest.Until(t, fmt.Sprintf("there are %d candidates", count), func() bool {
		now = candidates(t, c)
		return len(now) == count
	})
	return now
}
