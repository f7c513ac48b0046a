package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// When connections have taken all descriptors of the process, files can still be opened, again
// and again.
func TestFilesAreOpenedWithKeptDescriptors(t *testing.T) {
	dir := t.TempDir()
	fs := New().Keeping(3)
	defer func() {
		for fs.kept.give() {
		}
	}()
	must(t, vfs.ReplaceFile(fs, filepath.Join(dir, "here"), filepath.Join(dir, "tmp"), nil))
	exhaust(t)
	if f, err := New().Open(dir); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("%v %v: there are descriptors left", f, err)
	}
	for range 10 {
		lock, err := fs.Lock(dir)
		must(t, err)
		log, err := fs.Create(filepath.Join(dir, "reserve"))
		must(t, err)
		must(t, fs.SyncDir(dir))
		must(t, log.Close())
		names, err := fs.List(dir)
		must(t, err)
		if len(names) != 2 {
			t.Errorf("names %v", names)
		}
		stream, err := fs.CreateStream(filepath.Join(dir, "here"))
		must(t, err)
		must(t, stream.Close())
		like, err := fs.CreateLike(filepath.Join(dir, "reserve"), filepath.Join(dir, "here"))
		must(t, err)
		must(t, like.Close())
		must(t, lock.Close())
	}
}

// exhaust opens files until the process may open no more, until the test ends.
func exhaust(t *testing.T) {
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	few := was
	few.Cur = min(was.Cur, 256)
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	t.Cleanup(func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) })
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			return
		}
		must(t, err)
		t.Cleanup(func() { f.Close() })
	}
}
