//go:build linux && robust

package robust

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// goneRounds is how often the files of a leader disappear.
const goneRounds = 5

// The directory of the leader is renamed under load, as if its disk had been unmounted. The
// others must replace the leader while the files are away, and it follows when they are back.
// (Apache's server writes on, into files that no start would find.)
func TestLeaderWithoutItsFilesIsReplaced(t *testing.T) {
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{
		Kinds: []servers.Kind{servers.Conclave(), servers.Conclave(), servers.Conclave()}, Config: []string{"tickTime=500", "initLimit=120", "syncLimit=8"},
	})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", e.Describe(), e.LogTails(3000))
		}
		must(t, e.Close())
	})
	must(t, e.Start(t.Context()))
	load, err := workload.Start(t.Context(), workload.Options{Servers: e.Addrs()})
	must(t, err)
	defer load.Close()
	for range goneRounds {
		leader, err := e.AwaitLeader(t.Context())
		must(t, err)
		must(t, load.Await(t.Context(), 200))
		files := filepath.Join(leader.DataDir(), "version-2")
		must(t, os.Rename(files, files+".away"))
		began := time.Now()
		await(t, "another server leads", 20*time.Second, func() bool {
			now := e.Leader()
			return now != nil && now != leader
		})
		t.Logf("server %d was replaced after %v", leader.ID, time.Since(began).Round(time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		must(t, load.Await(ctx, 200))
		cancel()
		must(t, os.Rename(files+".away", files))
		must(t, leader.AwaitServing(t.Context()))
	}
	load.Finish()
	breaches, err := load.Verify(t.Context(), []string{e.Member(1).Addr, e.Member(2).Addr, e.Member(3).Addr})
	must(t, err)
	for _, breach := range breaches {
		t.Error(breach)
	}
}
