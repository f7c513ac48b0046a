package inprocess

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A server whose disk was lost gets an older copy of its directory, epoch files included,
// while the only other server that has what it acknowledged since then is down. With the
// mark of docs/operations.md, Recovery, it has no vote, so no server leads without the
// acknowledged transactions.
func TestOlderCopyWithTheMarkHasNoVote(t *testing.T) {
	disks := map[int]*vfs.Mem{1: vfs.NewMem(), 2: vfs.NewMem(), 3: vfs.NewMem()}
	e, err := Start(Options{Servers: 3, Base: quick(), Change: func(id int, c *server.Config) { c.FS, c.DataDir = disks[id], "/data" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	create(t, e, "/before")
	serve(t, e)
	must(t, e.Stop(3))
	older := disks[1].KillClone()
	lead(t, e)
	create(t, e, "/since")
	must(t, e.Stop(1))
	must(t, e.Stop(2))

	must(t, vfs.ReplaceFile(older, "/data/version-2/rejoining", "/data/version-2/t", nil))
	disks[1] = older
	must(t, e.Start(1))
	must(t, e.Start(3))
	awaittest.Never(t, 2*time.Second, "a server leads without what was acknowledged", func() bool { return e.Leader() != 0 })
	must(t, e.Start(2))
	serve(t, e)
	c := dial(t, e)
	defer c.Close()
	if _, _, err := c.Get(awaittest.Within(t), "/since"); err != nil {
		t.Error(err)
	}
	awaittest.Until(t, "the mark has gone", func() bool {
		marked, err := vfs.Exists(older, "/data/version-2/rejoining")
		return err == nil && !marked
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
