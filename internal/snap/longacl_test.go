package snap

import (
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A whole snapshot with a longer list than the configured length allows now is too long, like
// one with a long path or long data: jute.maxbuffer was larger. It is not damaged.
func TestListThatIsTooLongIsNoDamage(t *testing.T) {
	disk := vfs.NewMem()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(disk.MkdirAll("d"))
	w, err := Create(disk, "d", 5, Plain)
	must(err)
	w.Begin(0, 1)
	var list []zk.ACL
	for i := range zk.Perms(200) {
		list = append(list, zk.ACL{Perms: i, Identity: zk.Identity{Scheme: "digest", ID: "a:b"}})
	}
	w.ACL(1, list)
	must(w.Node("", nil, 1, &zk.StatPersisted{}))
	must(w.End(5, zk.Digest{}, 5))
	must(w.Commit())
	files, err := Files(disk, "d")
	must(err)
	_, err = Verify(disk, "d", files[0], Options{BufferBytesMax: 1 << 20})
	must(err)
	if _, err := Verify(disk, "d", files[0], Options{BufferBytesMax: 1 << 10}); !vfs.IsTooLong(err) || vfs.IsCorruption(err) {
		t.Errorf("too long %v, damaged %v: %v", vfs.IsTooLong(err), vfs.IsCorruption(err), err)
	}
}
