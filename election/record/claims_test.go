package record

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// down is a store that can be made to answer with errors only.
type down struct {
	*Memory
	reads, writes atomic.Bool // fail
}

var errDown = errors.New("down")

func (d *down) Read(ctx context.Context, name string) (Record, string, error) {
	if d.reads.Load() {
		return Record{}, "", errDown
	}
	return d.Memory.Read(ctx, name)
}

// Write takes effect, but its answer is lost.
func (d *down) Write(ctx context.Context, name string, r Record, version string) (string, error) {
	after, err := d.Memory.Write(ctx, name, r, version)
	if d.writes.Load() {
		return "", errDown
	}
	return after, err
}

func try(t *testing.T, b *Backend, i int) election.Grant {
	t.Helper()
	grant := election.Grant{Claim: election.Claim{Election: "jobs", ID: "a", Nonce: fmt.Sprintf("%032d", i),
		Lease: 20 * time.Millisecond}}
	if _, err := b.Acquire(t.Context(), grant.Claim); err == nil {
		t.Fatal("granted by a store that is down")
	}
	return grant
}

// kept returns how many claims the backend remembers, and how many of them could
// not be released.
func kept(b *Backend) (claims, stale int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory("jobs").Claims()
}

// TestClaimsAreForgottenWithoutAStore: a claim that has written nothing needs no answer, and
// one that has written is forgotten when the record shows that it is gone.
func TestClaimsAreForgottenWithoutAStore(t *testing.T) {
	synctest.Test(t, claimsAreForgottenWithoutAStore)
}

func claimsAreForgottenWithoutAStore(t *testing.T) {
	c := electiontest.VirtualClock(1)
	store := &down{Memory: NewMemory(c)}
	b := New(store, Options{Clock: c})
	defer b.Close()
	store.reads.Store(true)
	for i := range 5 {
		if err := b.Release(t.Context(), try(t, b, i)); err != nil {
			t.Errorf("claim %d has written nothing: %v", i, err)
		}
	}
	if claims, _ := kept(b); claims != 0 {
		t.Errorf("%d claims are kept", claims)
	}
	store.reads.Store(false)
	store.writes.Store(true)
	for i := range 5 {
		grant := try(t, b, 5+i)
		store.reads.Store(true)
		if err := b.Release(t.Context(), grant); err == nil {
			t.Errorf("claim %d is released, and nobody has answered", 5+i)
		}
		store.reads.Store(false)
	}
	if claims, _ := kept(b); claims > 2 { // at most the one that the record names, and the one before it
		t.Errorf("%d claims are kept, of which the record names one", claims)
	}
	store.writes.Store(false)
	if _, err := b.Acquire(t.Context(), election.Claim{Election: "jobs", ID: "b", Nonce: fmt.Sprintf("%032d", 99),
		Lease: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Nanosecond) // of the bubble's clock: only a later question shows that a claim is gone
	if _, err := b.History(t.Context(), "jobs"); err != nil {
		t.Fatal(err)
	}
	if claims, stale := kept(b); claims != 1 || stale != 0 {
		t.Errorf("%d claims are kept beside that of the leader, %d of them stale", claims-1, stale)
	}
}
