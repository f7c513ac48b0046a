package file_test

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// A process that led has ended, and left a process behind that has its lock: nobody else can lead,
// and Try, which does not wait, reports this.
func TestLockOfAProcessLeftBehindIsHeld(t *testing.T) {
	b, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	elector := func(id string) *election.Elector {
		e, err := election.New(b, "job", election.Options{ID: id, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	child := exec.Command("sleep", "60")
	nothing := func(context.Context, election.Leadership) error { return nil }
	err = elector("first").Run(t.Context(), func(_ context.Context, lead election.Leadership) error {
		child.ExtraFiles = lead.Files()
		return child.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := awaittest.Within(t)
	err = elector("second").Try(ctx, nothing)
	if held := (*election.HeldError)(nil); !errors.As(err, &held) || held.View.Leader != "first" {
		t.Errorf("while the lock is held: %v", err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if err := elector("third").Run(ctx, nothing); err != nil {
		t.Error(err)
	}
}

// A lock that is free, or that a candidate has just got, does not belong to another candidate.
func TestTryOfAFreeElectionLeads(t *testing.T) {
	b, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		e, err := election.New(b, "job", election.Options{ID: "one"})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Try(t.Context(), func(context.Context, election.Leadership) error { return nil }); err != nil {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
}

// A candidate arrives and gets the lock during a look, after the state and the queue were read, and
// before the lock is checked. The look does not report the previous leader as its holder.
func TestLookBesideACandidateThatComesShowsNoFormerLeader(t *testing.T) {
	dir := t.TempDir()
	backend := func() *file.Backend {
		b, err := file.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	acquire := func(b *file.Backend, id string) election.Grant {
		grant, err := b.Acquire(awaittest.Within(t), election.Claim{Election: "job", ID: id, Nonce: "nonce" + id, Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	one, two, looks := backend(), backend(), backend()
	if err := one.Release(awaittest.Within(t), acquire(one, "one")); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	looks.SetFault(func(operation string) error {
		if operation == "look" {
			once.Do(func() { acquire(two, "two") })
		}
		return nil
	})
	for view, err := range looks.Observe(awaittest.Within(t), "job") {
		if err != nil || view.Leader == "one" {
			t.Errorf("%+v, %v", view, err)
		}
		if view.Leader != "" {
			break
		}
	}
}
