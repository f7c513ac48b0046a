package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

func TestDevRemovesWhatKilledOnesHaveLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	make := func(name string, age time.Duration) string {
		dir := filepath.Join(os.TempDir(), name)
		if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	left := make(devPrefix+"1", time.Hour)
	stays := []string{make(devPrefix+"2", 0), make(devPrefix+"of-0", time.Hour), make("other-1", time.Hour),
		make(devPrefix+"3", time.Hour), make(devPrefix+"4", time.Hour)}
	for _, dir := range []string{stays[3], filepath.Join(stays[4], "1")} { // a dev runs there
		lock, err := osfs.New().Lock(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
	}
	removeLeft()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", left, err)
	}
	for _, dir := range stays {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}
