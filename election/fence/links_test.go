//go:build unix

package fence

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestNoSymbolicLinkBesideAFileIsFollowed: other users may write to the directory of the file.
func TestNoSymbolicLinkBesideAFileIsFollowed(t *testing.T) {
	dir := t.TempDir()
	path, victim, nobody := filepath.Join(dir, "tokens"), filepath.Join(dir, "victim"), filepath.Join(dir, "nobody")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(nobody, path+lockSuffix); err != nil {
		t.Fatal(err)
	}
	if l, err := lock(context.Background(), path); err == nil {
		_ = l.Close()
		t.Error("a lock where a link leads")
	}
	if _, err := os.Lstat(nobody); err == nil {
		t.Error("a file was made where a link leads")
	}
	if err := os.Symlink(victim, path+newSuffix); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, []byte("7"), func() error { return nil }); err != nil { // the link goes
		t.Fatal(err)
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "mine" {
		t.Errorf("the victim has %q, %v", got, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "7" {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// The lock may be a link to a file elsewhere, for example on a shared disk.
func TestLockThatIsALinkIsHeld(t *testing.T) {
	path, elsewhere := filepath.Join(t.TempDir(), "report"), filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, path+lockSuffix); err != nil {
		t.Fatal(err)
	}
	l, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := replace(path, []byte("7"), l.check); err != nil {
		t.Error(err)
	}
}
