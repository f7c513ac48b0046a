package fence_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

func open(t *testing.T, path string) *fence.Fence {
	t.Helper()
	f, err := fence.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func check(t *testing.T, f *fence.Fence, resource string, token election.Token) {
	t.Helper()
	if err := f.Check(resource, token); err != nil {
		t.Error(err)
	}
}

func TestTokensOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := open(t, path)
	check(t, f, "orders", 1<<63+5)
	check(t, f, "with \"quotes\"\nand lines", 7)
	if _, err := fence.Open(path); err == nil {
		t.Error("a second one has opened the file")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Check("orders", 1<<63+6); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a new token after Close: %v", err)
	}
	f = open(t, path)
	if err := f.Check("orders", 1<<63+4); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token after a restart: %v", err)
	}
	if f.Seen("with \"quotes\"\nand lines") != 7 {
		t.Errorf("seen %d", f.Seen("with \"quotes\"\nand lines"))
	}
	check(t, f, "orders", 1<<63+6)
}

// What was written when the machine stopped is beside the file, and not taken
// for it.
func TestHalfWrittenTokensAreNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := open(t, path)
	check(t, f, "r", 5)
	_ = f.Close()
	if err := os.WriteFile(path+".new", []byte("conclave fence 1\ntoken 9"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = open(t, path)
	if f.Seen("r") != 5 {
		t.Errorf("seen %d", f.Seen("r"))
	}
	check(t, f, "r", 6)
}

func TestResourcesRaisedAtOnceAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := open(t, path)
	names := strings.Split("abcdefgh", "")
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			for token := election.Token(1); token <= 5; token++ {
				check(t, f, name, token)
			}
		})
	}
	group.Wait()
	_ = f.Close()
	f = open(t, path)
	for _, name := range names {
		if f.Seen(name) != 5 {
			t.Errorf("%s: seen %d", name, f.Seen(name))
		}
	}
}

func TestDamagedTokensAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := open(t, path)
	check(t, f, "r", 5)
	_ = f.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		for _, text := range [][]byte{damaged, whole[:i]} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if f, err := fence.Open(path); err == nil {
				_ = f.Close()
				t.Errorf("taken: %q", text)
			}
		}
	}
}
