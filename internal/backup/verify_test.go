package backup_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// pieces lists the files of a backup.
func pieces(t *testing.T, disk *vfs.Mem) []string {
	t.Helper()
	names, err := disk.List("/")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".gz") })
}

// find returns the name and the content of a piece whose name begins with prefix.
func find(t *testing.T, disk *vfs.Mem, prefix string) (string, []byte) {
	t.Helper()
	for _, name := range pieces(t, disk) {
		if strings.HasPrefix(name, prefix) {
			content, err := vfs.ReadFile(disk, "/"+name, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			return name, content
		}
	}
	t.Fatalf("no %s in %v", prefix, pieces(t, disk))
	return "", nil
}

func put(t *testing.T, disk *vfs.Mem, name string, content []byte) {
	t.Helper()
	if err := vfs.ReplaceFile(disk, "/"+name, "/t", content); err != nil {
		t.Fatal(err)
	}
}

// takenOften is a sound backup with three snapshots.
func takenOften(t *testing.T, digests bool) *vfs.Mem {
	t.Helper()
	w, disk := newWritten(t), vfs.NewMem()
	w.digests = digests
	place := backup.OpenDir(disk, "/")
	for z := zk.Zxid(1); z < 30; z += 10 {
		w.create(z, z+8)
		w.snapshot()
		w.create(z+9, z+9)
		w.take(place, z+9, backup.Options{Snapshot: true})
		if z == 1 {
			other := vfs.NewMem()
			w.take(backup.OpenDir(other, "/"), 5, backup.Options{})
			name, content := find(t, other, "log-") // the log of the first take makes it unnecessary
			put(t, disk, name, content)
		}
	}
	name, content := find(t, disk, "snapshot-000000000000001d-") // its log has not been taken yet
	put(t, disk, strings.Replace(name, "000000000000001d-000000000000001d", "000000000000001d-0000000000000099", 1), content)
	_, err := open(t, backup.OpenDir(disk, "/")).Verify(t.Context())
	w.must(err)
	return disk
}

// A snapshot whose copy is whole, but in which a byte had changed before the copy: that is
// damage, even if the tree is the first to notice it.
func TestAnyChangedByteOfASnapshotIsDamage(t *testing.T) {
	disk := takenOften(t, true)
	name, content := find(t, disk, "snapshot-")
	packed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	for at := range snapshot {
		snapshot[at] ^= 2
		var again bytes.Buffer
		packer := gzip.NewWriter(&again)
		_, err := packer.Write(snapshot)
		if err := errors.Join(err, packer.Close()); err != nil {
			t.Fatal(err)
		}
		put(t, disk, name, again.Bytes())
		if _, err := open(t, backup.OpenDir(disk, "/")).Verify(t.Context()); !vfs.IsCorruption(err) {
			t.Fatalf("byte %d of %d: %v", at, len(snapshot), err)
		}
		snapshot[at] ^= 2
	}
}

func TestVerifyReadsEveryFile(t *testing.T) {
	disk := takenOften(t, true)
	names := pieces(t, disk)
	if len(names) < 8 {
		t.Fatal(names)
	}
	for _, name := range names {
		_, content := find(t, disk, name)
		for _, at := range []int{len(content) / 2, len(content) - 6} {
			bad := slices.Clone(content)
			bad[at] ^= 0x10
			put(t, disk, name, bad)
			if _, err := open(t, backup.OpenDir(disk, "/")).Verify(t.Context()); err == nil {
				t.Errorf("%s is damaged, and the backup is said to be sound", name)
			}
		}
		put(t, disk, name, content)
	}
}

// Without digests in the log, a wrong snapshot is detected by the one before it, which leads to
// another tree.
func TestVerifyComparesSnapshots(t *testing.T) {
	disk := takenOften(t, false)
	other, mem := newWritten(t), vfs.NewMem()
	other.become(18)
	other.create(19, 19)
	other.snapshot()
	other.create(20, 20)
	other.take(backup.OpenDir(mem, "/"), 20, backup.Options{})
	const second = "snapshot-0000000000000013-0000000000000013-"
	name, _ := find(t, disk, second)
	_, content := find(t, mem, second)
	put(t, disk, name, content)
	if _, err := open(t, backup.OpenDir(disk, "/")).Verify(t.Context()); err == nil || errors.Is(err, backup.ErrOutside) {
		t.Errorf("a snapshot of another tree: %v", err)
	}
}
