//go:build linux && robust

package robust

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
	"github.com/conclave-project/conclave/zk"
)

const (
	// killEvery is the time between two kills.
	killEvery = 4 * time.Second

	// remakers is the number of clients that delete and create directories.
	remakers = 6

	// others is the number of znodes that nobody changes, which make a snapshot take
	// longer.
	others = 300_000
)

// Transactions delete directories and create them again with other children, while
// snapshots are taken and servers are killed. In the end all servers have the same tree,
// data and every field of every stat, and still do after a restart.
func TestTreesStayEqualWhileDirectoriesAreMadeAgain(t *testing.T) {
	for _, count := range []int{0, others} {
		t.Run(fmt.Sprintf("beside %d znodes", count), func(t *testing.T) {
			e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{
				Kinds: []servers.Kind{kind(t), kind(t), kind(t)}, Config: []string{"tickTime=500", "initLimit=40", "syncLimit=8", "snapCount=1000"},
			})
			must(t, err)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s\n%s", e.Describe(), e.LogTails(3000))
				}
				must(t, e.Close())
			})
			must(t, e.Start(t.Context()))
			if count > 0 {
				_, err := loadgen.Tree(t.Context(), loadgen.Options{Addrs: []string{e.Member(1).Addr}, DataBytes: 100, Prefix: "/others"}, count)
				must(t, err)
			}
			made := killWhileRemaking(t, e, equalKills(t))
			equalTrees(t, e, "before a restart")
			for _, m := range e.Members {
				must(t, m.Stop())
				must(t, m.Start(t.Context()))
			}
			equalTrees(t, e, "after a restart of each")
			t.Logf("%d directories made again", made)
		})
	}
}

// equalKills is how often a server is killed: ROBUST_EQUAL_KILLS.
func equalKills(t *testing.T) int {
	text := os.Getenv("ROBUST_EQUAL_KILLS")
	if text == "" {
		return 15
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// killWhileRemaking kills a random server repeatedly under load, and returns how many
// directories were created again.
func killWhileRemaking(t *testing.T, e *servers.Ensemble, kills int) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var made atomic.Int64
	for i := range remakers {
		c := connect(t, e.Addrs(), sessionTimeout)
		clients.Go(func() { remake(ctx, c, i, &made) })
	}
	for range kills {
		m := e.Members[rand.IntN(len(e.Members))]
		pace := time.NewTimer(killEvery)
		<-pace.C
		must(t, m.Kill())
		must(t, m.Launch(t.Context()))
	}
	for _, m := range e.Members {
		must(t, m.AwaitServing(t.Context()))
	}
	before := made.Load()
	await(t, "directories are made again when all serve", time.Minute, func() bool { return made.Load() > before+100 })
	cancel()
	clients.Wait()
	return made.Load()
}

// remakes is how often a directory is created again before it is the next one's turn: the
// effects of a wrong replay must not be wiped out by the next deletion.
const remakes = 6

// remake deletes a directory with its children and creates it again with other children, in
// one transaction, several times, then continues with another directory.
func remake(ctx context.Context, c *client.Client, id int, made *atomic.Int64) {
	random := rand.New(rand.NewPCG(uint64(id), 1))
	parent := fmt.Sprintf("/remade-%d", id)
	for n := 0; ctx.Err() == nil; n++ {
		if n%remakes == 0 { // until it exists
			c.Create(ctx, parent, nil, client.CreateOptions{})
		}
		dir := fmt.Sprintf("%s/%d", parent, n/remakes)
		names, _, err := c.Children(ctx, dir)
		var ops []client.Operation
		for _, name := range names {
			ops = append(ops, client.DeleteOp(dir+"/"+name, -1))
		}
		switch {
		case err == nil:
			ops = append(ops, client.DeleteOp(dir, -1))
		case errors.Is(err, zk.ErrNoNode):
		default:
			continue // its server was killed
		}
		ops = append(ops, client.CreateOp(dir, fmt.Appendf(nil, "%d", n), client.CreateOptions{}))
		for range 1 + random.IntN(6) {
			name := fmt.Sprintf("%s/%d-%d", dir, random.IntN(8), len(ops))
			ops = append(ops, client.CreateOp(name, []byte(strings.Repeat("x", random.IntN(2000))), client.CreateOptions{}))
		}
		if _, err := c.Multi(ctx, ops...); err == nil {
			made.Add(1)
		}
	}
}

// equalTrees compares all servers' trees, except for the time at which each has written its
// own configuration into its tree.
func equalTrees(t *testing.T, e *servers.Ensemble, when string) {
	t.Helper()
	_, err := e.AwaitEqual(t.Context())
	must(t, err)
	trees, err := workload.Trees(t.Context(), strings.Split(e.Addrs(), ","), "/", client.Options{})
	must(t, err)
	first := trees[e.Member(1).Addr]
	for _, tree := range trees {
		config := tree[zk.ConfigPath]
		config.Stat.Mtime = 0
		tree[zk.ConfigPath] = config
	}
	for _, m := range e.Members[1:] {
		for _, difference := range workload.Differences("server 1", fmt.Sprintf("server %d", m.ID), first, trees[m.Addr]) {
			t.Errorf("%s: %s", when, difference)
		}
	}
	for _, m := range e.Members {
		metrics, err := servers.Metrics(m.Addr)
		must(t, err)
		if n := metrics["zk_digest_mismatches_count"]; n != 0 {
			t.Errorf("%s: server %d has counted %v mismatches of the digest", when, m.ID, n)
		}
	}
	t.Logf("%s: %d znodes", when, len(first))
}
