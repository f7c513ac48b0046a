//go:build unix

package file

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// awaitView waits until an observer that has just arrived sees what is expected.
func awaitView(t *testing.T, dir, what string, expected func(election.View) bool) {
	t.Helper()
	var last election.View
	for view, err := range open(t, dir).Observe(awaittest.Within(t), "jobs") {
		if last = view; err == nil && expected(view) {
			return
		}
	}
	t.Fatalf("%s: seen is %+v", what, last)
}

// A candidate's files in the directory are removed while it waits: its entry, or
// everything (file-F5). It is seen again, and when it leads it can be asked for something.
func TestCandidateWhoseFilesWereRemovedIsSeen(t *testing.T) {
	for what, remove := range map[string]func(place) error{
		"entries": func(p place) error {
			names, err := p.entries()
			for _, name := range names {
				must(t, os.Remove(p.path(queueDir, name)))
			}
			return err
		},
		"the queue": func(p place) error { return removeAll(p.path(queueDir)) },
		"the lock":  func(p place) error { return os.Remove(p.path(lockFile)) },
		"the state": func(p place) error { return os.Remove(p.path(stateFile)) },
		// Not atomically: the waiting candidates make files in the meantime.
		"the directory": func(p place) error { _ = exec.Command("rm", "-rf", p.dir).Run(); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			a, b := open(t, t.TempDir()), open(t, t.TempDir())
			b.dir = a.dir
			first, second := claim(lease), claim(lease)
			grant, err := a.Acquire(awaittest.Within(t), first)
			must(t, err)
			acquired := make(chan election.Grant, 1)
			go func() {
				for t.Context().Err() == nil { // an attempt may fail in the middle of it
					grant, err := b.Acquire(awaittest.Within(t), second)
					if err == nil {
						acquired <- grant
						return
					}
					t.Log(err)
				}
			}()
			waits := func(v election.View) bool {
				return slices.Contains(v.WaiterIDs(), second.ID) || v.Leader == second.ID
			}
			awaitView(t, a.dir, "b waits", waits)
			p, err := a.place("jobs")
			must(t, err)
			must(t, remove(p))
			awaitView(t, a.dir, "b waits again, or leads", waits)
			must(t, a.Release(awaittest.Within(t), grant))
			grant = <-acquired
			awaitView(t, a.dir, "b leads", func(v election.View) bool {
				return v.Leader == second.ID && v.Token == grant.Token && len(v.Waiters) == 0
			})
			must(t, a.Ask(awaittest.Within(t), "jobs", election.Request{By: "me"}))
			if grant, err = b.Renew(awaittest.Within(t), grant); err != nil || grant.Request == nil {
				t.Errorf("the leader was told of %+v, %v", grant.Request, err)
			}
			must(t, b.Release(awaittest.Within(t), grant))
		})
	}
}

// A leader's entry that is removed is put back, too.
func TestLeaderWhoseEntryWasRemovedIsSeen(t *testing.T) {
	b := open(t, t.TempDir())
	leader := claim(lease)
	grant, err := b.Acquire(awaittest.Within(t), leader)
	must(t, err)
	must(t, removeAll(filepath.Join(b.dir, "jobs", queueDir)))
	awaitView(t, b.dir, "the leader", func(v election.View) bool { return v.Leader == leader.ID })
	must(t, b.Release(awaittest.Within(t), grant))
	awaitView(t, b.dir, "nobody", func(v election.View) bool { return v.Leader == "" && len(v.Waiters) == 0 })
}

// Somebody leads and others wait, each trying forever. Everything is removed by rm -rf,
// while the waiting candidates make files. Afterwards somebody leads, and is seen.
func TestElectionGoesOnAfterItsDirectoryWasRemoved(t *testing.T) {
	for range 3 {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 3)
		for _, id := range []string{"a", "b", "c"} {
			e, err := election.New(open(t, dir), "jobs", election.Options{ID: id, Lease: time.Second,
				Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond})
			must(t, err)
			go func() {
				ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil })
			}()
		}
		var last election.Token
		complete := func(v election.View) bool {
			if v.Leader == "" || len(v.Waiters) != 2 || v.Token <= last {
				return false
			}
			last = v.Token
			return true
		}
		awaitView(t, dir, "one leads, two wait", complete)
		_ = exec.Command("rm", "-rf", filepath.Join(dir, "jobs")).Run()
		awaitView(t, dir, "one leads again, two wait", complete)
		select {
		case err := <-ended:
			t.Error("a Run has ended: ", err)
		default:
		}
		cancel()
		for range cap(ended) {
			<-ended
		}
	}
}

// removeAll is os.RemoveAll for a directory in which others make files at the same time.
func removeAll(path string) error {
	for {
		if err := os.RemoveAll(path); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
}
