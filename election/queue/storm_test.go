package queue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
)

// Candidates and members of groups use a queue in memory, each over a link of its own and with
// a clock of its own, as wrong as clocks may be; the store has one, too. Requests arrive late,
// even when nobody waits for them any more; requests or their answers are lost; watches lag,
// end, or are lost in silence; links are cut, and the store is gone for a while. Candidates
// vanish, or leave for a while and come back over the same backend, even in the middle of a
// hand-over, and operators ask for hand-overs. Package storm says what is judged; in addition,
// nothing may be left in the store of candidates that have ended.
func TestQueuesThroughStorms(t *testing.T) {
	storm.Through(t, 20, func(_ *testing.T, seed uint64) storm.Played { return newQueueStorm(seed, queueMutant{}, false) })
}

// TestGroupsThroughStorms makes the candidates members of a group as well.
func TestGroupsThroughStorms(t *testing.T) {
	storm.Through(t, 3, func(_ *testing.T, seed uint64) storm.Played { return newQueueStorm(seed, queueMutant{}, true) })
}

// queueStorm is a store, and candidates over links to it.
type queueStorm struct {
	*storm.Links
	mutant queueMutant
	store  *memory
}

func newQueueStorm(seed uint64, mutant queueMutant, grouped bool) *queueStorm {
	w, s := &queueStorm{mutant: mutant, store: newMemory()}, storm.New(seed, grouped)
	w.store.now = bubble.DriftingClock(s.Random).Now
	if mutant.storeRate > 0 {
		w.store.now = bubble.Clock(mutant.storeRate).Now
	}
	s.Observer = New(w.store, Options{Clock: bubble.Clock(1)})
	w.Links = s.Linked(150, 1000, w.open)
	return w
}

// Play implements storm.Played.
func (w *queueStorm) Play(faults int) {
	w.Rage(faults, w.store.extend)
	for name, q := range w.store.queues {
		_ = w.store.change(name, func(*line) (bool, error) { return false, nil })
		if len(q.entries) > 0 {
			w.Breach("%s: %d entries are left of candidates that have ended, the first of %s", name, len(q.entries), q.entries[0].ID)
		}
	}
	w.Judge()
}

// open returns the backend of a candidate.
func (w *queueStorm) open(c *storm.Candidate, link *bubble.Link) (election.Backend, func() error) {
	b := New(linked{w.store, c, link, w.mutant, w.Stands}, Options{Clock: c.Clock})
	if w.mutant.backend != nil {
		return w.mutant.backend(b), b.Close
	}
	return b, b.Close
}

// extend makes all leases begin again, as a new leader of etcd or Consul does.
func (m *memory) extend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		for _, s := range q.entries {
			if m.now() <= s.until {
				s.until = max(s.until, m.now().Add(s.lease))
			}
		}
	}
}

// stormAnswer is how long a request waits for its answer.
const stormAnswer = 3 * time.Second

// linked is the store over the link of one candidate.
type linked struct {
	*memory
	c      *storm.Candidate
	link   *bubble.Link
	mutant queueMutant
	stands func(nonces ...string)
}

// over makes a request that returns a result.
func over[T any](ctx context.Context, l linked, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(ctx, stormAnswer)
	defer cancel()
	if err := l.link.Pass(ctx, func() {
		value, err := call()
		got <- answer{value, err}
	}); err != nil {
		var none T
		if l.mutant.trusts {
			err = nil
		}
		return none, err
	}
	l.c.Answered()
	a := <-got
	return a.value, a.err
}

func tell(ctx context.Context, l linked, call func() error) error {
	_, err := over(ctx, l, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (l linked) Entry(life context.Context, claim election.Claim) Entry {
	e := &linkedEntry{linked: l, claim: claim, entry: l.memory.Entry(life, claim)}
	if l.c.Machine%2 == 0 {
		return e
	}
	return quietEntry{e}
}

func (l linked) Observe(life context.Context, name string) Observer {
	return &linkedObserver{linked: l, name: name, observer: l.memory.Observe(life, name)}
}

func (l linked) Ask(ctx context.Context, name string, holder Holder, request election.Request) error {
	return tell(ctx, l, func() error { return l.memory.Ask(ctx, name, holder, request) })
}

type linkedObserver struct {
	linked
	name     string
	observer Observer
	seen     string // at the latest look
}

func (o *linkedObserver) Look(ctx context.Context, latest bool) (Sight, error) {
	sight, err := over(ctx, o.linked, func() (Sight, error) { return o.observer.Look(ctx, latest) })
	o.seen = fmt.Sprint(sight)
	return sight, err
}

func (o *linkedObserver) Wait(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, 2*stormAnswer)
	defer cancel()
	return o.link.Watch(within, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if sight, _ := o.observer.Look(ctx, true); fmt.Sprint(sight) != o.seen {
				break
			}
			o.await(ctx, o.name, time.Second)
		}
		return nil
	})
}

// linkedEntry is one claim over the link.
type linkedEntry struct {
	linked
	claim election.Claim
	entry Entry

	seen  string // what the latest Place waited for
	quiet bool   // nothing has changed there, as far as its watch reports
}

// quietEntry is an entry that knows when nothing has come.
type quietEntry struct{ *linkedEntry }

func (e quietEntry) Quiet() bool { return e.quiet }

func (e *linkedEntry) lease(ctx context.Context, call func(context.Context) (Lease, error)) (Lease, error) {
	sent := e.c.Clock.Now()
	lease, err := over(ctx, e.linked, func() (Lease, error) { return call(ctx) })
	if lease.Sent = sent; e.mutant.late {
		lease.Sent = e.c.Clock.Now()
	}
	if e.mutant.trusts {
		lease.Length = e.claim.Lease
	}
	return lease, err
}

func (e *linkedEntry) Create(ctx context.Context) (Lease, error) { return e.lease(ctx, e.entry.Create) }
func (e *linkedEntry) Renew(ctx context.Context) (Lease, error)  { return e.lease(ctx, e.entry.Renew) }

func (e *linkedEntry) Enter(ctx context.Context) error {
	return tell(ctx, e.linked, func() error {
		err := e.entry.Enter(ctx)
		if err == nil {
			e.stands(e.claim.Nonce)
		}
		if err != nil && e.mutant.stays {
			_ = e.change(e.claim.Election, func(q *line) (bool, error) {
				q.entries = append(q.entries, &spot{lease: time.Hour, until: e.now().Add(time.Hour),
					Candidate: Candidate{ID: e.claim.ID, Key: e.claim.Nonce, Created: e.last}})
				return true, nil
			})
		}
		return err
	})
}

func (e *linkedEntry) Place(ctx context.Context) (Place, error) {
	type sight struct {
		place Place
		scene string
	}
	now, err := over(ctx, e.linked, func() (sight, error) {
		scene := e.scene(e.claim)
		place, err := e.entry.Place(ctx)
		return sight{place, scene}, err
	})
	if err == nil {
		e.seen = now.scene
	}
	return now.place, err
}

// scene is what a waiter watches: its predecessor and itself.
func (m *memory) scene(claim election.Claim) (scene string) {
	_ = m.change(claim.Election, func(q *line) (bool, error) {
		before := ""
		for _, s := range q.queued() {
			if s.Key == claim.Nonce {
				scene = fmt.Sprint(before, s.Created, s.nomination)
			}
			before = fmt.Sprint(s.Key, s.Created)
		}
		return false, nil
	})
	return scene
}

func (e *linkedEntry) Wait(ctx context.Context, limit time.Duration) error {
	e.quiet = false
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.link.Watch(within, func(ctx context.Context) error {
		for ctx.Err() == nil && e.scene(e.claim) == e.seen {
			e.await(ctx, e.claim.Election, limit)
		}
		return nil
	})
	if e.quiet = within.Err() != nil && ctx.Err() == nil; e.quiet {
		return nil
	}
	return err
}

func (e *linkedEntry) Answer(ctx context.Context, n Nomination) error {
	return tell(ctx, e.linked, func() error { return e.entry.Answer(ctx, n) })
}

func (e *linkedEntry) Prove(ctx context.Context, history *History) (Proof, error) {
	return over(ctx, e.linked, func() (Proof, error) { return e.entry.Prove(ctx, history) })
}

func (e *linkedEntry) Guard(ctx context.Context, news func()) error {
	return e.link.Watch(ctx, func(ctx context.Context) error { return e.entry.Guard(ctx, news) })
}

func (e *linkedEntry) Leave(ctx context.Context, history *History, successor *Candidate) error {
	return tell(ctx, e.linked, func() error { return e.entry.Leave(ctx, history, successor) })
}

func (e *linkedEntry) History(ctx context.Context) (History, error) {
	return over(ctx, e.linked, func() (History, error) { return e.entry.History(ctx) })
}

func (e *linkedEntry) Note(ctx context.Context, history History) error {
	return tell(ctx, e.linked, func() error { return e.entry.Note(ctx, history) })
}

func (e *linkedEntry) Waiters(ctx context.Context) iter.Seq2[Candidate, error] {
	return Each(over(ctx, e.linked, func() (all []Candidate, err error) {
		for c, err := range e.entry.Waiters(ctx) {
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		return slices.Clone(all), nil
	}))
}

func (e *linkedEntry) Nominate(ctx context.Context, chosen Candidate) (Nomination, error) {
	return over(ctx, e.linked, func() (Nomination, error) { return e.entry.Nominate(ctx, chosen) })
}

func (e *linkedEntry) Answered(ctx context.Context, chosen Candidate, n Nomination) (Nomination, error) {
	return over(ctx, e.linked, func() (Nomination, error) { return e.entry.Answered(ctx, chosen, n) })
}

func (e *linkedEntry) Promote(ctx context.Context, chosen Candidate) error {
	return tell(ctx, e.linked, func() error { return e.entry.Promote(ctx, chosen) })
}

func (e *linkedEntry) Revoke(ctx context.Context) error {
	return tell(ctx, e.linked, func() error { return e.entry.Revoke(ctx) })
}
