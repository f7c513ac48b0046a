package txnlog

import (
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// openFiles is a disk that counts the files that are open.
type openFiles struct {
	vfs.FS
	n int
}

type openFile struct {
	vfs.File
	disk *openFiles
}

func (f openFile) Close() error {
	f.disk.n--
	return f.File.Close()
}

// Leads reports whether a name still leads to a file, as a real file system can.
func (f openFile) Leads(name string) error {
	file, err := f.disk.FS.Open(name)
	if err != nil {
		return err
	}
	return file.Close()
}

func (d *openFiles) count(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	d.n++
	return openFile{file, d}, nil
}

func (d *openFiles) Open(name string) (vfs.File, error) { return d.count(d.FS.Open(name)) }
func (d *openFiles) OpenReadWrite(name string) (vfs.File, error) {
	return d.count(d.FS.OpenReadWrite(name))
}
func (d *openFiles) Create(name string) (vfs.File, error) { return d.count(d.FS.Create(name)) }

// TestNoFileStaysOpen: a log has its segment, its mark and a reserve open, however many segments
// it has begun, and nothing when it is closed; nor does anything else that reads or changes it.
func TestNoFileStaysOpen(t *testing.T) {
	mem := newDisk(t)
	disk := &openFiles{FS: mem}
	closed := func(what string, err error) {
		t.Helper()
		if must(t, err); disk.n != 0 {
			t.Fatalf("%s: %d files are open", what, disk.n)
		}
	}
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 4096})
	must(t, err)
	for zxid := zk.Zxid(1); zxid <= 10; zxid++ {
		must(t, log.Append(zxid, payload(zxid, 600)))
		must(t, log.Sync())
		log.Roll()
		must(t, log.Ready())
		if disk.n != 3 {
			t.Fatalf("%d files are open after segment %d", disk.n, zxid)
		}
	}
	must(t, log.Reset(10))
	must(t, log.Append(11, payload(11, 600)))
	must(t, log.Append(12, payload(12, 600)))
	must(t, log.Sync())
	log.Roll()
	must(t, log.Ready())
	closed("after Close", log.Close())
	names, err := disk.List(dir)
	if must(t, err); slices.Contains(names, reserveName) {
		t.Fatalf("a closed log keeps space for the next segment: %v", names)
	}
	last := content(t, mem, "log.b")
	put(t, mem, "log.b", last[:len(last)-20])
	got, torn, err := read(disk, 0)
	if closed("after reading", err); len(got) != 11 || torn == nil {
		t.Fatalf("read %v, torn %v", got, torn)
	}
	closed("made durable", MakeDurable(disk, dir, torn, ReadOptions{}))
	_, err = ReadNoted(disk, dir)
	closed("the mark", err)
	tail := NewTail(disk, dir, 0, PayloadBytesMax)
	closed("followed", tail.Read(11, func(zk.Zxid, []byte) error { return nil }))
	closed("truncated", Truncate(disk, dir, 8, ReadOptions{}))
	reader, err := NewReader(disk, dir, 0, ReadOptions{})
	must(t, err)
	_, err = reader.Next()
	must(t, err)
	closed("a reader in the middle", reader.Close())
	if _, err := reader.Next(); err == nil || err == io.EOF {
		t.Fatalf("a closed reader: %v", err)
	}
	put(t, mem, "log.8", []byte("not a log of transactions"))
	_, _, err = read(disk, 0)
	if !vfs.IsCorruption(err) {
		t.Fatalf("damage in %s: %v", filepath.Join(dir, "log.8"), err)
	}
	closed("a damaged log", nil)
}
