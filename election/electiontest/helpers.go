package electiontest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// leads wraps a function of a leader so that its span is recorded.
func (h *history) leads(function func(context.Context, election.Leadership) error,
) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, lead election.Leadership) error {
		b := span{who: lead.ID(), token: lead.Token(), from: h.clock.Now()}
		err := function(ctx, lead)
		b.to = h.clock.Now()
		h.add(b)
		return err
	}
}

// untilEnd is the function of a leader that leads as long as it can.
func untilEnd(ctx context.Context, _ election.Leadership) error {
	<-ctx.Done()
	return nil
}

func atOnce(context.Context, election.Leadership) error { return nil }

// verify judges the history, which must have the expected number of leaderships; any number is fine
// if leaderships is negative.
func (s Suite) verify(t *testing.T, h *history, leaderships int) {
	t.Helper()
	v := h.judge()
	s.recorder.judged(v)
	for _, wrong := range v.wrong {
		t.Error(wrong)
	}
	if leaderships >= 0 && v.leaderships != leaderships {
		t.Errorf("%d leaderships, expected %d", v.leaderships, leaderships)
	}
}

// tally counts the events of an elector.
type tally struct {
	mu       sync.Mutex
	story    []string // for a test that fails
	kinds    map[election.EventKind]int
	lost     chan election.Reason
	elected  chan election.Token
	campaign chan struct{}
}

func newTally() *tally {
	return &tally{kinds: map[election.EventKind]int{}, lost: make(chan election.Reason, toldMax),
		elected: make(chan election.Token, toldMax), campaign: make(chan struct{}, toldMax)}
}

func (c *tally) add(e election.Event) {
	c.mu.Lock()
	c.kinds[e.Kind]++
	if e.Kind != election.EventRenewed { // those are too many
		c.story = append(c.story, fmt.Sprintf("%s %v token=%d reason=%v error=%v",
			time.Now().Format("15:04:05.000"), e.Kind, e.Token, e.Reason, e.Err))
	}
	c.mu.Unlock()
	switch e.Kind {
	case election.EventCampaigning:
		c.campaign <- struct{}{}
	case election.EventElected:
		c.elected <- e.Token
	case election.EventLost:
		c.lost <- e.Reason
	}
}

func (c *tally) count(kind election.EventKind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[kind]
}

// calm is the suite with a lease longer than almost any pause of a machine, for tests in which no
// lease is to expire. A store may grant a shorter one. Where no waiters are seen, each look for one
// takes a lease.
func (s Suite) calm() Suite {
	if s.recorder.report.Traits.Waiters {
		s.Lease = max(s.Lease, min(5*s.Lease, leaseLong))
	}
	return s
}

// newElector returns a candidate that retries soon.
func (s Suite) newElector(t testing.TB, b election.Backend, name string, o election.Options) *election.Elector {
	t.Helper()
	o.Lease, o.Retry, o.RetryMax, o.Clock = cmp.Or(o.Lease, s.Lease), 10*time.Millisecond, 100*time.Millisecond, s.clock
	elector, err := election.New(b, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return elector
}

// member is an elector that runs in the background until the test ends.
type member struct {
	elector *election.Elector
	events  *tally
	stop    func()
	ended   <-chan error
}

// run lets a candidate campaign in the background and records its leaderships.
func (s Suite) run(t testing.TB, h *history, b election.Backend, name string, o election.Options) *member {
	t.Helper()
	events := newTally()
	o.OnEvent = events.add
	elector := s.newElector(t, b, name, o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var once sync.WaitGroup
	once.Go(func() { ended <- elector.Run(ctx, h.leads(untilEnd)) })
	t.Cleanup(func() {
		stop()
		once.Wait()
		if t.Failed() {
			t.Logf("%s:\n  %s", o.ID, strings.Join(events.story, "\n  "))
		}
	})
	return &member{elector, events, stop, ended}
}

// end stops the member and waits until it has stopped.
func (m *member) end(t testing.TB, s Suite) {
	t.Helper()
	m.stop()
	await(t, s, m.elector.ID()+" ends", m.ended)
}

// within returns the context for one thing that must happen.
func (s Suite) within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	t.Cleanup(cancel)
	return ctx
}

// newClaim returns a claim for a lease that needs no renewal within a test.
func (s Suite) newClaim(name, id string) election.Claim {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	return election.Claim{Election: name, ID: id, Nonce: hex.EncodeToString(nonce[:]),
		Lease: min(2*s.patience(), leaseLong)}
}

// leaseLong is the longest lease that all stores grant (Azure's limit).
const leaseLong = time.Minute

func (s Suite) acquire(t testing.TB, b election.Backend, claim election.Claim) election.Grant {
	t.Helper()
	grant, err := b.Acquire(s.within(t), claim)
	if err != nil {
		t.Fatalf("acquire %q: %v", claim.Election, err)
	}
	return grant
}

// acquiring acquires in the background. The channel receives the grant, or is closed if the test
// ends or the call is stopped first.
func (s Suite) acquiring(t testing.TB, b election.Backend, claim election.Claim) (granted <-chan election.Grant, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	grants := make(chan election.Grant, 1)
	var once sync.WaitGroup
	once.Go(func() {
		defer close(grants)
		grant, err := b.Acquire(ctx, claim)
		if err == nil {
			grants <- grant
		} else if ctx.Err() == nil {
			t.Errorf("acquire %q for %s: %v", claim.Election, claim.ID, err)
		}
	})
	t.Cleanup(func() {
		stop()
		once.Wait()
	})
	return grants, stop
}

func (s Suite) release(t testing.TB, b election.Backend, grant election.Grant) {
	t.Helper()
	if err := b.Release(s.within(t), grant); err != nil {
		t.Errorf("release %q: %v", grant.Claim.Election, err)
	}
}

// awaitView returns once an observer sees what is wanted.
func (s Suite) awaitView(t testing.TB, url, name string, want func(election.View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	defer cancel()
	last := "nothing"
	for view, err := range s.Open(t, url).Observe(ctx, name) {
		view.Err = err
		if want(view) {
			return
		}
		last = fmt.Sprintf("%+v", view)
	}
	t.Fatalf("the observer did not see it within %v; the last view: %s", s.patience(), last)
}

// awaitWaiting returns once an observer sees the waiter, or at once where waiters cannot be seen.
func (s Suite) awaitWaiting(t testing.TB, url, name, id string) {
	t.Helper()
	if !s.recorder.report.Traits.Waiters {
		return
	}
	s.awaitView(t, url, name, func(v election.View) bool { return v.Waits(id) })
}

// awaitNobody returns once nobody leads and, as far as can be seen, nobody waits.
func (s Suite) awaitNobody(t testing.TB, url, name string) {
	t.Helper()
	s.awaitView(t, url, name, func(v election.View) bool { return v.Leader == "" && len(v.Waiters) == 0 })
}
