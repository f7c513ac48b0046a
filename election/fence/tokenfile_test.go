package fence_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// A server that is told to end, or to read its configuration again, closes its fence while
// a request is being served: no newer token acts at the same time, in any process.
func TestCloseWaitsForThoseWhoAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, ctx := filepath.Join(t.TempDir(), "tokens"), t.Context()
		f, acts := open(t, path), atomic.Bool{}
		go func() {
			err := f.Do(ctx, "orders", 5, func(ctx context.Context) error {
				acts.Store(true)
				defer acts.Store(false)
				<-ctx.Done()
				time.Sleep(time.Second)
				return context.Cause(ctx)
			})
			if err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("the context of the act ended with %v", err)
			}
		}()
		synctest.Wait()
		waited := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond) // Close has begun
			waited <- f.Do(ctx, "orders", 6, func(context.Context) error { t.Error("6 acts"); return nil })
			_ = f.Close()
			if acts.Load() {
				t.Error("a second Close has not waited")
			}
		}()
		if err := f.Close(); err != nil || acts.Load() {
			t.Errorf("Close: %v; 5 acts: %v", err, acts.Load())
		}
		if err := <-waited; err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("6 while the fence is being closed: %v", err)
		}
		next := open(t, path)
		check(t, next, "orders", 7)
		for token := election.Token(5); token < 9; token++ {
			if err := f.Check("orders", token); err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("token %d was checked by a fence that is closed: %v", token, err)
			}
			if err := f.Do(ctx, "orders", token, func(context.Context) error { return nil }); err == nil {
				t.Errorf("token %d was let in by a fence that is closed", token)
			}
		}
	})
}

// What was being written when the machine stopped is next to the file, and is not taken for it.
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

// TestTokensStayWhereALinkLeads: the link is part of a container's image, and the file is
// on a volume that outlives the container.
func TestTokensStayWhereALinkLeads(t *testing.T) {
	app, data := t.TempDir(), t.TempDir()
	link, target := filepath.Join(app, "tokens"), filepath.Join(data, "tokens")
	for _, step := range []struct {
		token election.Token
		want  error
	}{{42, nil}, {7, fence.ErrStale}} {
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		f, err := fence.Open(link)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fence.Open(target); err == nil {
			t.Error("it is opened a second time, by its other name")
		}
		if err := f.Check("orders", step.token); !errors.Is(err, step.want) {
			t.Errorf("token %d: %v", step.token, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
