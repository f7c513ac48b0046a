package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// down is a store whose entries get no answer.
type down struct{ *memory }

var errDown = errors.New("no answer")

type downEntry struct{ Entry }

func (d down) Entry(life context.Context, claim election.Claim) Entry {
	return downEntry{d.memory.Entry(life, claim)}
}

func (downEntry) Create(context.Context) (Lease, error) { return Lease{}, errDown }
func (downEntry) Revoke(context.Context) error          { return errDown }

func newClaim(number int, lease time.Duration) election.Claim {
	return election.Claim{Election: "jobs", ID: fmt.Sprint("c", number), Nonce: fmt.Sprintf("%032d", number), Lease: lease}
}

// TestClaimsAreForgottenWithoutAStore: claims are forgotten once their leases have ended by
// themselves.
func TestClaimsAreForgottenWithoutAStore(t *testing.T) {
	b, now := New(down{newMemory()}, Options{}), clock.Instant(1)
	b.now = func() clock.Instant { return now }
	const lease = 10 * time.Second
	try := func(number int) {
		if _, err := b.Acquire(t.Context(), newClaim(number, lease)); !errors.Is(err, errDown) {
			t.Fatalf("Acquire returned %v", err)
		}
		if err := b.Release(t.Context(), election.Grant{Claim: newClaim(number, lease)}); !errors.Is(err, errDown) {
			t.Fatalf("Release returned %v", err)
		}
	}
	for i := range 50 {
		try(i)
	}
	now = now.Add(3 * lease)
	try(50)
	if len(b.claims) != 51 {
		t.Errorf("%d claims are kept while their leases may last", len(b.claims))
	}
	now = now.Add(1)
	try(51)
	if len(b.claims) != 2 {
		t.Errorf("%d claims are kept", len(b.claims))
	}
}

// TestCloseTellsOfAReleaseThatFailedOnce: at most once, and not of a failure that its caller
// knows.
func TestCloseTellsOfAReleaseThatFailedOnce(t *testing.T) {
	for _, known := range []bool{false, true} {
		b := New(down{newMemory()}, Options{})
		one := newClaim(0, 10*time.Second)
		if _, err := b.Acquire(t.Context(), one); !errors.Is(err, errDown) {
			t.Fatalf("Acquire returned %v", err)
		}
		if known {
			if err := b.Release(t.Context(), election.Grant{Claim: one}); !errors.Is(err, errDown) {
				t.Fatalf("Release returned %v", err)
			}
		}
		if err := b.Close(); errors.Is(err, errDown) == known {
			t.Errorf("Close returned %v; the failure was known: %v", err, known)
		}
	}
}

// failing is a store that releases nothing for a while.
type failing struct {
	*memory
	fails bool
}

type failingEntry struct {
	Entry
	store *failing
}

func (f *failing) Entry(life context.Context, claim election.Claim) Entry {
	return failingEntry{f.memory.Entry(life, claim), f}
}

func (e failingEntry) Leave(ctx context.Context, h *History, successor *Candidate) error {
	if e.store.fails {
		return errDown
	}
	return e.Entry.Leave(ctx, h, successor)
}

func (e failingEntry) Revoke(ctx context.Context) error {
	if e.store.fails {
		return errDown
	}
	return e.Entry.Revoke(ctx)
}

// TestCloseReleasesWhatCouldNotBeReleased: nobody else would release it, and others would wait
// for the lease.
func TestCloseReleasesWhatCouldNotBeReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{memory: newMemory()}
		store.now = electiontest.VirtualClock(1).Now
		b := New(store, Options{Clock: electiontest.VirtualClock(1)})
		grant, err := b.Acquire(t.Context(), newClaim(0, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		store.fails = true
		grant.Ended = election.ReasonResigned
		if err := b.Release(t.Context(), grant); !errors.Is(err, errDown) {
			t.Fatalf("Release returned %v", err)
		}
		store.fails = false
		if _, err := b.Renew(t.Context(), grant); !errors.Is(err, election.ErrLost) { // queue-Q7
			t.Errorf("after its release it is renewed: %v", err)
		}
		began := time.Now()
		if err := b.Close(); err != nil || time.Since(began) >= closeLimit {
			t.Errorf("Close returned %v after %v", err, time.Since(began))
		}
		sight, err := store.Observe(t.Context(), "jobs").Look(t.Context(), true)
		if last := sight.History; err != nil || sight.Holder.Token != 0 || len(last) != 1 || last[0].Reason != "resigned" {
			t.Errorf("after Close there is %+v, %v", sight, err)
		}
	})
}

// fixture is an election in memory: a leads, the others wait in their order.
type fixture struct {
	*testing.T
	store   *memory
	backend *Backend
	held    election.Grant
	ended   map[string]chan error // of each Acquire
	granted chan election.Grant
}

func inQueue(t *testing.T, waiters int) *fixture {
	return inQueueOf(t, newMemory(), Options{}, waiters)
}

// inVirtualQueue is inQueue in a bubble.
func inVirtualQueue(t *testing.T, waiters int) *fixture {
	store, c := newMemory(), electiontest.VirtualClock(1)
	store.now = c.Now
	return inQueueOf(t, store, Options{Clock: c}, waiters)
}

func inQueueOf(t *testing.T, store *memory, options Options, waiters int) *fixture {
	f := &fixture{T: t, store: store, ended: make(map[string]chan error), granted: make(chan election.Grant, waiters)}
	f.backend = New(f.store, options)
	t.Cleanup(func() { _ = f.backend.Close() })
	var err error
	if f.held, err = f.backend.Acquire(t.Context(), newClaim(0, time.Minute)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= waiters; i++ {
		one, ended := newClaim(i, time.Minute), make(chan error, 1)
		f.ended[one.ID] = ended
		go func() {
			grant, err := f.backend.Acquire(t.Context(), one)
			if err == nil {
				f.granted <- grant
			}
			ended <- err
		}()
		f.await(func(in []*spot) bool { return len(in) == i+1 })
	}
	return f
}

// await waits until the queue is as it shall be.
func (f *fixture) await(right func([]*spot) bool) {
	f.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); f.store.await(f.Context(), "jobs", time.Second) {
		ok := false
		_ = f.store.change("jobs", func(q *line) (bool, error) {
			ok = right(q.queued())
			return false, nil
		})
		if ok {
			return
		}
	}
	f.Fatal("the queue never was as it shall be")
}

// remove takes an entry out of the queue, or its lease with it.
func (f *fixture) remove(id string, lease bool) {
	_ = f.store.change("jobs", func(q *line) (bool, error) {
		for _, s := range q.queued() {
			if s.ID == id {
				s.Created = 0
				if lease {
					s.until = 0
				}
			}
		}
		return true, nil
	})
}

// TestWaiterWhoseLeaseDiedIsNeverTold (queue-Q1).
func TestWaiterWhoseLeaseDiedIsNeverTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inVirtualQueue(t, 1)
		synctest.Wait() // c1 waits
		began := time.Now()
		f.remove("c1", true)
		if err := <-f.ended["c1"]; !errors.Is(err, election.ErrLost) || time.Since(began) > time.Second {
			t.Errorf("Acquire returned %v after %v", err, time.Since(began))
		}
	})
}

// leaseless is the entry of a waiter that has neither a place nor a lease any more.
type leaseless struct {
	Entry
	entered bool
}

func (*leaseless) Place(context.Context) (Place, error) { return Place{}, nil }
func (*leaseless) Renew(context.Context) (Lease, error) { return Lease{}, errNoLease }

func (l *leaseless) Enter(context.Context) error {
	l.entered = true
	return nil
}

// TestWaiterWithoutALeaseDoesNotEnterAgain (queue-Q1): the store would keep its entry for ever.
func TestWaiterWithoutALeaseDoesNotEnterAgain(t *testing.T) {
	entry := &leaseless{}
	w := &waiter{backend: New(nil, Options{}), claim: &claim{entry: entry}}
	if _, err := w.look(t.Context()); !errors.Is(err, election.ErrLost) || entry.entered {
		t.Errorf("look returned %v; it has entered the queue: %v", err, entry.entered)
	}
}

// TestWaiterWhoseEntryIsRemovedGoesToTheEnd: its lease lives (queue-Q4).
func TestWaiterWhoseEntryIsRemovedGoesToTheEnd(t *testing.T) {
	f := inQueue(t, 2)
	f.remove("c1", false)
	f.await(func(in []*spot) bool { return len(in) == 3 && in[2].ID == "c1" })
	for _, want := range []string{"c2", "c1"} {
		if err := f.backend.Release(t.Context(), f.held); err != nil {
			t.Fatal(err)
		}
		next := <-f.granted
		if next.Claim.ID != want || next.Token <= f.held.Token {
			t.Errorf("%q is granted with token %d after %d", next.Claim.ID, next.Token, f.held.Token)
		}
		f.held = next
	}
}

// TestWaiterKeepsItsLeaseAndItsPlace (queue-Q1).
func TestWaiterKeepsItsLeaseAndItsPlace(t *testing.T) { synctest.Test(t, waiterKeepsItsPlace) }

func waiterKeepsItsPlace(t *testing.T) {
	store, c := newMemory(), electiontest.VirtualClock(1)
	store.now = c.Now
	f := inQueueOf(t, store, Options{Clock: c}, 0)
	one := newClaim(1, 2*time.Second)
	ended := make(chan error, 1)
	go func() {
		_, err := f.backend.Acquire(t.Context(), one)
		ended <- err
	}()
	created := uint64(0)
	f.await(func(in []*spot) bool {
		if len(in) == 2 && created == 0 {
			created = in[1].Created
		}
		return len(in) == 2 && in[1].renewals > 5 && in[1].Created == created
	})
	if err := f.backend.Release(t.Context(), f.held); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Acquire returned %v", err)
	}
}

// TestHolderWhoseEntryIsRemovedIsTold though it does not renew.
func TestHolderWhoseEntryIsRemovedIsTold(t *testing.T) {
	f := inQueue(t, 0)
	f.remove("c0", false)
	select {
	case <-f.held.Lost:
	case <-time.After(30 * time.Second):
		t.Fatal("it is not told")
	}
	if _, err := f.backend.Renew(t.Context(), f.held); !errors.Is(err, election.ErrLost) {
		t.Errorf("Renew returned %v", err)
	}
}

// TestRivalIsTheFirstOfTheHighestPriority among those that can be nominated.
func TestRivalIsTheFirstOfTheHighestPriority(t *testing.T) {
	one := func(id string, priority int) Candidate { return Candidate{ID: id, Priority: priority} }
	for _, test := range []struct {
		waiters []Candidate
		want    string
	}{
		{nil, ""},
		{[]Candidate{one("a", 5)}, ""},
		{[]Candidate{one("a", 5), one("b", 6), one("c", 7), one("d", 7)}, "c"},
		{[]Candidate{one("a", 6), {ID: "x", Foreign: true}, one("b", 7)}, "a"},
	} {
		if rival, found := Rival(test.waiters, 5); rival.ID != test.want || found != (test.want != "") {
			t.Errorf("%+v: %q, %v, expected %q", test.waiters, rival.ID, found, test.want)
		}
	}
}

// TestHandOverDoesNotMoveOtherClients (queue-Q6).
func TestHandOverDoesNotMoveOtherClients(t *testing.T) {
	f := inQueue(t, 2)
	_ = f.store.change("jobs", func(q *line) (bool, error) {
		q.queued()[1].Foreign = true
		return true, nil
	})
	if err := f.backend.Nominate(t.Context(), f.held, "c2"); !errors.Is(err, ErrForeign) {
		t.Errorf("one after another client: %v", err)
	}
	if err := f.backend.Nominate(t.Context(), f.held, "c1"); err != nil {
		t.Errorf("the other client itself, which is next: %v", err)
	}
	if err := f.backend.Nominate(t.Context(), f.held, ""); !errors.Is(err, election.ErrNoCandidate) {
		t.Errorf("nobody: %v", err)
	}
	f.await(func(in []*spot) bool { return in[1].ID == "c1" && in[2].ID == "c2" })
}

// TestNominationThatFailsLeavesNoSuccessor, neither its own nor that of an earlier one: otherwise
// a release, perhaps weeks later, would still prefer it.
func TestNominationThatFailsLeavesNoSuccessor(t *testing.T) { synctest.Test(t, failedNomination) }

func failedNomination(t *testing.T) {
	f := inVirtualQueue(t, 2)
	successor := func() *Candidate {
		_, _, chosen := f.backend.claim(f.held.Claim.Nonce).granted()
		return chosen
	}
	if err := f.backend.Nominate(t.Context(), f.held, "c2"); err != nil || successor() == nil || successor().ID != "c2" {
		t.Fatalf("Nominate returned %v, next is %+v", err, successor())
	}
	if err := f.backend.Nominate(t.Context(), f.held, "nobody"); err == nil || successor() != nil {
		t.Errorf("Nominate returned %v for nobody, next is %+v", err, successor())
	}
	_ = f.store.change("jobs", func(*line) (bool, error) {
		f.store.still = true
		return false, nil
	})
	if err := f.backend.Nominate(t.Context(), f.held, "c2"); !errors.Is(err, errDown) || successor() != nil {
		t.Errorf("Nominate returned %v where nobody is promoted, next is %+v", err, successor())
	}
}

// TestEndIsRecordedThoughTheHistoryHasChanged: a leader that has lost its leadership may have
// noted in the meantime how that ended.
func TestEndIsRecordedThoughTheHistoryHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inVirtualQueue(t, 0)
		_ = f.store.change("jobs", func(q *line) (bool, error) {
			q.history.Version = f.store.last
			return true, nil
		})
		f.held.Ended = election.ReasonResigned
		if err := f.backend.Release(t.Context(), f.held); err != nil {
			t.Fatal(err)
		}
		history, err := f.backend.History(t.Context(), "jobs")
		if err != nil || len(history) != 1 || history[0].Reason != "resigned" {
			t.Errorf("the history is %+v, %v", history, err)
		}
	})
}

// TestRequestIsThatOfOneLeadership: what was asked of another one stays unheard.
func TestRequestIsThatOfOneLeadership(t *testing.T) {
	asked := Proof{Request: &election.Request{Token: 7}}
	if asked.asked(7) == nil || asked.asked(8) != nil || (Proof{}).asked(0) != nil {
		t.Error("a leadership is asked what another one was")
	}
}

// TestCloseGivesUpNoGrantThatIsInUse (queue-Q9): the leader is told, and the next one is
// granted the election when it has been released.
func TestCloseGivesUpNoGrantThatIsInUse(t *testing.T) {
	f := inQueue(t, 1)
	other := New(f.store, Options{})
	next := make(chan election.Grant, 1)
	go func() {
		grant, err := other.Acquire(t.Context(), newClaim(2, time.Minute))
		if err != nil {
			t.Error(err)
		}
		next <- grant
	}()
	f.await(func(in []*spot) bool { return len(in) == 3 })
	f.backend.options.Close = func(used bool) error {
		if used {
			t.Error("Close does not wait for the leader, who ends in time")
		}
		return nil
	}
	closed := make(chan error, 1)
	go func() { closed <- f.backend.Close() }()
	<-f.held.Lost
	if err := <-f.ended["c1"]; err == nil {
		t.Error("who waits at a backend that is closed was granted the election")
	}
	f.await(func(in []*spot) bool { return len(in) == 2 && in[0].ID == "c0" })
	if err := f.backend.Release(t.Context(), f.held); err != nil {
		t.Error(err)
	}
	if err := errors.Join(<-closed, other.Release(t.Context(), <-next)); err != nil {
		t.Error(err)
	}
}

// TestCloseLeavesWhatIsStillInUseToExpire (queue-Q9), whatever becomes of its other claims.
func TestCloseLeavesWhatIsStillInUseToExpire(t *testing.T) { synctest.Test(t, closeInUse) }

func closeInUse(t *testing.T) {
	used := false
	f := inVirtualQueue(t, 9)
	f.backend.options.Close = func(left bool) error {
		used = left
		return nil
	}
	if err := f.backend.Close(); err != nil || !used {
		t.Errorf("Close returned %v, in use: %v", err, used)
	}
	f.await(func(in []*spot) bool { return len(in) == 1 && in[0].ID == "c0" })
	if err := f.backend.Release(t.Context(), f.held); err != nil {
		t.Error(err)
	}
	f.await(func(in []*spot) bool { return len(in) == 0 })
}
