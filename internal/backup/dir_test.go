package backup_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// What was taken survives a power loss, and so does the directory that was created for it.
func TestDirectoryOfABackupIsDurable(t *testing.T) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/mnt"); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	place, err := backup.LockDir(disk, "/mnt/backups/zk")
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	err = place.Put(t.Context(), "piece", func(w io.Writer) error {
		_, err := io.WriteString(w, "content")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	content, err := vfs.ReadFile(disk.CrashClone(0, 1), "/mnt/backups/zk/piece", 100)
	if err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
}

// A take that was killed leaves a file that it was writing, under a name that no later one has,
// encrypted or not.
func TestWhatAKilledTakeLeftIsRemoved(t *testing.T) {
	disk := takenOften(t, true)
	name, content := find(t, disk, "log-")
	put(t, disk, "tmp."+name, content[:20])
	put(t, disk, "tmp."+name+".age", content[:20])
	put(t, disk, "tmp.of-somebody", content[:20])
	place, err := backup.LockDir(disk, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	left, err := place.List(t.Context())
	if err != nil || slices.Contains(left, "tmp."+name) || slices.Contains(left, "tmp."+name+".age") || !slices.Contains(left, name) || !slices.Contains(left, "tmp.of-somebody") {
		t.Errorf("%v, %v", left, err)
	}
	failed := errors.New("full")
	if err := place.Put(t.Context(), "x", func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
