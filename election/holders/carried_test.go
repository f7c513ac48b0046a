package holders_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/holders"
)

// A reader sends the token of the gate, as a writer does: the tokens of its place are counted
// separately, and a fence that has seen one of those would refuse the next writer.
func TestContextsOfALockCarryItsToken(t *testing.T) {
	backend, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := holders.NewRWLock(backend, "lock", 2, election.Options{ID: "a", Lease: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	resource := fence.New()
	var left context.Context
	act := func(ctx context.Context, held holders.Held) error {
		left = context.WithoutCancel(ctx)
		token, err := fence.TokenOf(ctx)
		if err != nil || token != held.Token() {
			t.Errorf("the context carries %d, %v; the token is %d", token, err, held.Token())
		}
		return resource.Do(ctx, "row", token, func(context.Context) error { return nil })
	}
	for range 3 {
		for what, do := range map[string]func(context.Context, func(context.Context, holders.Held) error) error{
			"read": l.Read, "write": l.Write} {
			if err := do(t.Context(), act); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if token, err := fence.TokenOf(left); err == nil {
				t.Errorf("%s: it is over, and its context still carries %d", what, token)
			}
		}
	}
}

// refusing is the way to a store that for a while refuses what it allowed before, like a proxy
// without servers behind it.
type refusing struct {
	election.Backend
	refuses atomic.Bool
}

var errRefused = election.Permanent(errors.New("403"))

func (r *refusing) Acquire(ctx context.Context, c election.Claim) (election.Grant, error) {
	if r.refuses.Load() {
		return election.Grant{}, errRefused
	}
	return r.Backend.Acquire(ctx, c)
}

func (r *refusing) Renew(ctx context.Context, g election.Grant) (election.Grant, error) {
	if r.refuses.Load() {
		return g, errRefused
	}
	return r.Backend.Renew(ctx, g)
}

// A candidate that waits at the gate loses it meanwhile, and campaigns again.
func TestWaiterAtTheGateOutlivesARefusal(t *testing.T) {
	for what, writes := range map[string]bool{"read": false, "write": true} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { waitThroughARefusal(t, writes) }) })
	}
}

func waitThroughARefusal(t *testing.T, writes bool) {
	clock := electiontest.VirtualClock(1)
	store := electiontest.NewStore(clock)
	way := &refusing{Backend: store}
	lock := func(b election.Backend, id string) *holders.RWLock {
		l, err := holders.NewRWLock(b, "lock", 1, election.Options{ID: id, Lease: 10 * time.Second, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	free, first := make(chan struct{}), make(chan error, 1)
	go func() {
		first <- lock(store, "first").Read(t.Context(), func(context.Context, holders.Held) error { <-free; return nil })
	}()
	time.Sleep(time.Second)
	acted, ended := false, make(chan error, 1)
	go func() {
		second := lock(way, "second")
		act := second.Read
		if writes {
			act = second.Write
		}
		ended <- act(t.Context(), func(context.Context, holders.Held) error { acted = true; return nil })
	}()
	time.Sleep(5 * time.Second)
	way.refuses.Store(true)
	time.Sleep(15 * time.Second)
	way.refuses.Store(false)
	close(free)
	if err := <-ended; err != nil || !acted {
		t.Errorf("acted: %v, %v", acted, err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}
