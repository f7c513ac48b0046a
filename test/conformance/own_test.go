//go:build linux && conformance

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/conclave-project/conclave/zk"
)

// open opens a backend by the URLs of this file.
func open(url string) (*queue.Backend, error) {
	return zookeeper.New(strings.TrimPrefix(url, "zookeeper://"), zookeeper.Options{})
}

func openFor(t testing.TB, url string) election.Backend {
	t.Helper()
	b, err := open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestMain(m *testing.M) {
	os.Exit(electiontest.Main(m, func(url string) (election.Backend, error) { return open(url) }))
}

func TestZooKeeperOnConclavePassesTheSuite(t *testing.T) { runZooKeeper(t, "conclave", "Conclave") }
func TestZooKeeperOnApachePassesTheSuite(t *testing.T) {
	runZooKeeper(t, "zookeeper", "Apache ZooKeeper "+stores.Version("zookeeper"))
}

func runZooKeeper(t *testing.T, name, title string) {
	server := stores.Start(t, name)
	var count atomic.Int64
	electiontest.Run(t, electiontest.Suite{
		Open:  openFor,
		Proxy: server.Proxy,
		Store: title,
		URL: func(t testing.TB) string {
			path := fmt.Sprintf("/store-%d", count.Add(1))
			create(t, server.Addr, path)
			return server.URL + path
		},
		Delete: func(t testing.TB, url, name string) {
			c, path := dial(t, strings.TrimPrefix(url, "zookeeper://")), electionsPath+"/"+name
			for _, child := range children(t, c, path) {
				remove(t, c, path+"/"+child)
			}
			remove(t, c, path)
		},
		Left: func(t testing.TB, url string) int {
			c, left := dial(t, strings.TrimPrefix(url, "zookeeper://")), 0
			for _, name := range children(t, c, electionsPath) {
				left += len(children(t, c, electionsPath+"/"+name))
			}
			return left
		},
		Restart: func(t testing.TB, _ string) {
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// electionsPath is where the backend stores its elections.
const electionsPath = "/conclave/elections"

func dial(t testing.TB, servers string) *client.Client {
	t.Helper()
	c, err := client.Dial(awaittest.Within(t), servers, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// create creates a znode, on a new session if the last one was lost: a server that begins its log on a
// busy disk may be silent for that long.
func create(t testing.TB, servers, path string) {
	t.Helper()
	for ctx := awaittest.Within(t); ; {
		_, _, err := dial(t, servers).Create(ctx, path, nil, client.CreateOptions{})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return
		case ctx.Err() != nil || !errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, zk.ErrSessionExpired):
			t.Fatal(err)
		}
		t.Logf("create %s: %v", path, err)
	}
}

func children(t testing.TB, c *client.Client, path string) []string {
	t.Helper()
	names, _, err := c.Children(awaittest.Within(t), path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

// remove deletes a znode that a candidate may delete, or create children of, at the same
// time.
func remove(t testing.TB, c *client.Client, path string) {
	t.Helper()
	err := c.Delete(awaittest.Within(t), path, -1)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNotEmpty) {
		t.Fatal(err)
	}
}
