package command

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// An ephemeral exists where the backup has a znode with children. It and they are
// left alone, and nothing else is. Containers and TTL znodes do not count as
// ephemerals.
func TestEphemeralKeepsNoOtherZnodeFromBeingRestored(t *testing.T) {
	was := tree.New(tree.Options{ExtendedTypes: true})
	var out tree.Applied
	for i, at := range []string{"/app", "/app/x", "/app/x/c", "/app/x/c/d", "/app/xy", "/app/jobs", "/app/jobs/1"} {
		h := zk.TxnHeader{Zxid: zk.Zxid(i + 1), Op: zk.OpCreate}
		was.Apply(&h, &zk.Txn{Op: zk.OpCreate, Path: at, Data: []byte("was"), ACL: zk.OpenACL(), ParentCversion: -1}, &out)
	}
	live := func(owner int64) *liveZnode {
		return &liveZnode{acl: zk.OpenACL(), stat: zk.Stat{EphemeralOwner: owner}}
	}
	p := &replanting{was: was, live: map[string]*liveZnode{
		"/app": live(0), "/app/x": live(0x100000000000001), "/app/jobs": live(zk.ContainerOwner), "/app/new": live(zk.TTLOwner(1000)),
		"/app/kept": live(0), "/app/kept/e": live(0x100000000000001),
	}}
	backup.Walk(was, "/app", p.makeAsItWas)
	p.removeNew()
	var steps []string
	for i := range p.steps {
		steps = append(steps, p.steps[i].Change+" "+p.steps[i].Path)
	}
	want := []string{"set /app", "set /app/jobs", "create /app/jobs/1", "create /app/xy", "delete /app/new"}
	if !slices.Equal(steps, want) || !slices.Equal(p.left, []string{"/app/x", "/app/kept"}) {
		t.Errorf("steps %q, left %q", steps, p.left)
	}
}
