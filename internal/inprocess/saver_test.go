package inprocess

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
)

// On all servers, the disk with the configuration hangs, but an election and a reconfig
// succeed. Before a server ends, it saves the configurations that were not saved yet, the
// newest last.
func TestDiskOfTheConfigurationHoldsUpNobody(t *testing.T) {
	base := reconfigurable()
	free := make(chan struct{})
	var mu sync.Mutex
	saved := map[int]int64{}
	e, err := Start(Options{Servers: 3, Base: base, Change: func(id int, c *server.Config) {
		c.SaveEnsemble = func(c *ensemble.Config, next bool) error {
			<-free
			mu.Lock()
			defer mu.Unlock()
			if !next {
				saved[id] = c.Version
			}
			return nil
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { close(free); e.Close() })
	t.Cleanup(end)
	serve(t, e)
	ctx := awaittest.Within(t)
	c, err := client.Dial(ctx, strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	leader := lead(t, e)
	var version int64
	for id := range 3 {
		change := client.Change{Joining: []string{fmt.Sprintf("server.%d=127.0.0.1:1:2:observer;3", 7+id)}, Version: -1}
		if _, _, err := c.Reconfig(ctx, change); err != nil {
			t.Fatal(err)
		}
		data, _, err := c.Get(ctx, zk.ConfigPath)
		if err != nil {
			t.Fatal(err)
		}
		now, err := ensemble.Parse(string(data))
		if err != nil {
			t.Fatal(err)
		}
		version = now.Version
	}
	if e.Leader() != leader {
		t.Errorf("server %d leads after server %d", e.Leader(), leader)
	}
	c.Close()
	end()
	if saved[leader] != version {
		t.Errorf("saved %v, the last version is %x", saved, version)
	}
}
