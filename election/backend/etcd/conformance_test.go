//go:build conformance

package etcd_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestMain(m *testing.M) {
	os.Exit(electiontest.Main(m, func(url string) (election.Backend, error) {
		backend, _, err := etcd.Open(context.Background(), url)
		return backend, err
	}))
}

// lease is the shortest that a server with default timeouts grants.
const lease = 2 * time.Second

var (
	running   sync.Mutex
	serverOf  = map[string]*stores.Server{} // by URL
	etcdctl   string
	storeName = "etcd " + stores.Version("etcd")
)

// start runs an empty server for one test.
func start(t testing.TB) string {
	t.Helper()
	s := stores.Start(t, "etcd")
	running.Lock()
	defer running.Unlock()
	serverOf[s.URL], etcdctl = s, s.Note["etcdctl"]
	return s.URL
}

func server(url string) *stores.Server {
	running.Lock()
	defer running.Unlock()
	return serverOf[url]
}

func open(t testing.TB, url string) election.Backend {
	t.Helper()
	backend, end, err := etcd.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end() })
	return backend
}

// operator is a client beside all candidates.
func operator(t testing.TB, url string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server(url).Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestEtcdBackendPassesTheSuite(t *testing.T) {
	electiontest.Run(t, electiontest.Suite{
		Open: open, URL: start, Lease: lease, Store: storeName, Elections: 1000,
		Proxy: func(t testing.TB, url string) (string, electiontest.Link) {
			link, err := server(url).Link()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(link.Close)
			return "etcd://" + link.Addr, link
		},
		Delete: func(t testing.TB, url, name string) {
			for _, prefix := range []string{name + "/", "/conclave/line/" + name + "//"} {
				if _, err := operator(t, url).Delete(within(t), prefix, clientv3.WithPrefix()); err != nil {
					t.Fatal(err)
				}
			}
			for _, kind := range []string{"nomination/", "request/", "history/"} {
				if _, err := operator(t, url).Delete(within(t), "/conclave/"+kind+name); err != nil {
					t.Fatal(err)
				}
			}
		},
		Left: func(t testing.TB, url string) int {
			client := operator(t, url)
			leases, err := client.Leases(within(t))
			if err != nil {
				t.Fatal(err)
			}
			all, err := client.Get(within(t), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
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
		},
		Restart: func(t testing.TB, url string) {
			if err := server(url).Restart(within(t)); err != nil {
				t.Fatal(err)
			}
		},
	})
}
