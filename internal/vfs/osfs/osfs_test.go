package osfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesBehaveAsTheInterfaceSays(t *testing.T) {
	disk, dir := New(), filepath.Join(t.TempDir(), "version-2")
	must(t, disk.MkdirAll(dir))
	name := filepath.Join(dir, "log.1")
	f, err := disk.Create(name)
	must(t, err)
	_, err = f.Write([]byte("head"))
	must(t, err)
	must(t, f.Allocate(1<<20))
	_, err = f.Write([]byte("record"))
	must(t, err)
	must(t, f.Sync())
	must(t, disk.SyncDir(dir))
	size, err := f.Size()
	must(t, err)
	if size != 1<<20 {
		t.Errorf("size %d", size)
	}
	content, err := vfs.ReadFile(disk, name, 1<<20)
	must(t, err)
	if string(content[:12]) != "headrecord\x00\x00" {
		t.Errorf("content %q", content[:12])
	}
	must(t, f.Truncate(10))
	must(t, f.Close())
	must(t, disk.Rename(name, name+"0"))
	names, err := disk.List(dir)
	must(t, err)
	if len(names) != 1 || names[0] != "log.10" {
		t.Errorf("names %v", names)
	}
	if _, err := disk.Open(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a renamed file: %v", err)
	}
	if info, err := disk.Stat(dir); err != nil || !info.Dir {
		t.Errorf("stat: %v %v", info, err)
	}
}

func TestDirectoryIsLockedOnce(t *testing.T) {
	disk, dir := New(), t.TempDir()
	lock, err := disk.Lock(dir)
	must(t, err)
	if _, err := disk.Lock(dir); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(t, lock.Close())
	lock, err = disk.Lock(dir)
	must(t, err)
	must(t, lock.Close())
}

func TestFillWritesZerosWhereSpaceCannotBeReserved(t *testing.T) {
	f, err := New().Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer f.Close()
	must(t, f.(*file).fill(0, 3<<20))
	if size, err := f.Size(); err != nil || size != 3<<20 {
		t.Errorf("size %d %v", size, err)
	}
}

// When two open files append to the same file, neither overwrites what the other wrote;
// the disk in memory behaves the same.
func TestAppendedBytesGoToTheEnd(t *testing.T) {
	for _, disk := range []vfs.FS{New(), vfs.NewMem(), &vfs.Faulty{Disk: vfs.NewMem()}} {
		dir := filepath.Join(t.TempDir(), "of files")
		must(t, disk.MkdirAll(dir))
		name := filepath.Join(dir, "audit")
		for _, text := range []string{"a", "b"} {
			f, err := disk.OpenAppend(name)
			must(t, err)
			other, err := disk.OpenAppend(name)
			must(t, err)
			for _, f := range []vfs.File{f, other, f} {
				_, err := f.Write([]byte(text))
				must(t, err)
			}
			last := make([]byte, 1)
			if _, err := f.ReadAt(last, 0); err != nil || string(last) != "a" {
				t.Errorf("%T: read %q, %v", disk, last, err)
			}
			must(t, f.Close())
			must(t, other.Close())
		}
		content, err := vfs.ReadFile(disk, name, 100)
		must(t, err)
		if string(content) != "aaabbb" {
			t.Errorf("%T: %q", disk, content)
		}
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&^fileMode != 0 {
			t.Errorf("others may read the file: %v", info.Mode())
		}
		if _, err := disk.OpenAppend(dir); err == nil {
			t.Errorf("%T: a directory was opened for appending", disk)
		}
	}
}
