package replicadisk

import (
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Whatever byte of the newest snapshot has changed, and wherever the tree is the first to
// notice it: the snapshot before and the log together have everything that it had.
func TestAnyChangedByteOfASnapshotIsIgnored(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 2)
	for i, txn := range []zk.Txn{
		{Op: zk.OpCreate, Path: "/app", Data: []byte("x"), ACL: zk.CreatorACL()},
		{Op: zk.OpCreate, Path: "/app/config", ACL: zk.OpenACL()},
		{Op: zk.OpCreate, Path: "/app/config/key", Data: []byte("value"), ACL: zk.OpenACL()},
		{Op: zk.OpCreate, Path: "/app/member", ACL: zk.OpenACL(), Ephemeral: true},
		{Op: zk.OpCreate, Path: "/zookeeper/quota/app", ACL: zk.OpenACL()},
		{Op: zk.OpCreate, Path: "/zookeeper/quota/app/zookeeper_limits", Data: []byte("count=9,bytes=-1"), ACL: zk.OpenACL()},
	} {
		h.decide(zx(1, uint32(3+i)), &txn)
	}
	must(t, h.log(d, 0))
	must(t, h.save(d))
	newest := filepath.Join(d.Store().SnapDir(), "snapshot.100000008")
	must(t, d.Close())
	content, err := vfs.ReadFile(mem, newest, 1<<20)
	must(t, err)
	for at := range content {
		for _, mask := range []byte{1, 2, 0x10, 0x80} {
			disk := mem.KillClone()
			must(t, disk.FlipByte(newest, int64(at), mask))
			d, err := Open(disk, options())
			must(t, err)
			found, err := d.Recover()
			if err != nil {
				t.Fatalf("byte %d ^ %#x: %v", at, mask, err)
			}
			if len(found.Store.Rejected) != 1 || found.Store.Last != h.last() || found.Mismatches != 0 {
				t.Errorf("byte %d ^ %#x: %+v", at, mask, found.Store)
			}
			must(t, h.same(found.State))
			must(t, d.Close())
		}
	}
}
