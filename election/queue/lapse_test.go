package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// kept is a store whose client keeps entries for as long as the process lives.
type kept struct {
	*memory
	removed func() // called when an entry is removed; nil for nothing
}

type keptEntry struct {
	Entry
	of     *kept
	length time.Duration
}

func (k *kept) Entry(life context.Context, claim election.Claim) Entry {
	length := claim.Lease
	claim.Lease = time.Hour
	return keptEntry{k.memory.Entry(life, claim), k, length}
}

func (e keptEntry) Create(ctx context.Context) (Lease, error) {
	lease, err := e.Entry.Create(ctx)
	return Lease{Sent: lease.Sent}, err
}

func (e keptEntry) Renew(ctx context.Context) (Lease, error) {
	lease, err := e.Entry.Renew(ctx)
	return Lease{Sent: lease.Sent}, err
}

func (e keptEntry) Prove(ctx context.Context, history *History) (Proof, error) {
	sent := e.of.now()
	proof, err := e.Entry.Prove(ctx, history)
	proof.Lease = Lease{Sent: sent, Length: e.length}
	return proof, err
}

func (e keptEntry) Revoke(ctx context.Context) error {
	if e.of.removed != nil {
		e.of.removed()
	}
	return e.Entry.Revoke(ctx)
}

// TestGrantThatIsNotRenewedEnds (queue-Q10) with the lease that its latest proof is for, and not
// before: its holder is told, and then others may lead.
func TestGrantThatIsNotRenewedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &kept{memory: newMemory()}
		store.now = electiontest.VirtualClock(1).Now
		b := New(store, Options{Clock: electiontest.VirtualClock(1)})
		defer b.Close()
		const lease = 10 * time.Second
		grant, err := b.Acquire(t.Context(), newClaim(0, lease))
		if err != nil {
			t.Fatal(err)
		}
		told := func() bool {
			select {
			case <-grant.Lost:
				return true
			default:
				return false
			}
		}
		store.removed = func() {
			if !told() {
				t.Error("its entry is removed before it is told")
			}
		}
		for range 3 {
			time.Sleep(lease * 9 / 10)
			if _, err := b.Renew(t.Context(), grant); err != nil {
				t.Fatalf("a grant that is renewed in time is lost: %v", err)
			}
		}
		began := time.Now()
		next, err := b.Acquire(t.Context(), newClaim(1, lease))
		if took := time.Since(began); err != nil || took < lease || took > lease+time.Second || !told() {
			t.Errorf("after %v the next one leads with %+v, %v; the first one is told: %v", took, next, err, told())
		}
		store.removed = nil
	})
}
