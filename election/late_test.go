package election_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// deaf answers Acquire with a grant only when told to, and ignores its context.
type deaf struct {
	clock         clock.Clock
	asked, answer chan struct{}
	released      chan string

	mu    sync.Mutex
	token election.Token
	held  map[string]bool
}

func newDeaf(c clock.Clock) *deaf {
	return &deaf{clock: c, asked: make(chan struct{}, 100), answer: make(chan struct{}), released: make(chan string, 1000),
		held: make(map[string]bool)}
}

func (d *deaf) Traits() election.Traits {
	return election.Traits{Name: "deaf", Exclusive: true, Expires: true, LeaseMin: 10 * time.Millisecond}
}

func (d *deaf) Acquire(_ context.Context, claim election.Claim) (election.Grant, error) {
	d.asked <- struct{}{}
	<-d.answer
	d.mu.Lock()
	defer d.mu.Unlock()
	d.token++
	d.held[claim.Nonce] = true
	return election.Grant{Claim: claim, Token: d.token, Sent: d.clock.Now(), Lease: claim.Lease}, nil
}

func (d *deaf) Renew(_ context.Context, grant election.Grant) (election.Grant, error) {
	grant.Sent = d.clock.Now()
	return grant, nil
}

func (d *deaf) Release(_ context.Context, grant election.Grant) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, grant.Claim.Nonce)
	d.released <- grant.Claim.Nonce
	return nil
}

func (d *deaf) Observe(context.Context, string) iter.Seq2[election.View, error] {
	return func(func(election.View, error) bool) {}
}

func (d *deaf) holds() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.held)
}

// TestGrantThatComesAfterTheEndIsReleased: Run has given up waiting and is about
// to return.
func TestGrantThatComesAfterTheEndIsReleased(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			c := electiontest.VirtualClock(1)
			d := newDeaf(c)
			e, err := election.New(d, "jobs", election.Options{Once: true, Lease: 10 * time.Millisecond, Retry: time.Millisecond, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(awaittest.Within(t))
			ended := make(chan error, 1)
			go func() {
				ended <- e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
			}()
			<-d.asked
			cancel()
			<-d.released    // the bare claim; the loop ends with it
			synctest.Wait() // so it has ended, or else this was no late grant
			close(d.answer)
			<-ended
			if d.holds() != 0 {
				t.Error("a grant is held that nobody has")
			}
		})
	}
}

// TestGrantOfAForgottenAttemptIsReleased: an unhealthy candidate has given up the attempt,
// and the answer arrives when the attempt is forgotten.
func TestGrantOfAForgottenAttemptIsReleased(t *testing.T) {
	synctest.Test(t, grantOfAForgottenAttempt)
}

func grantOfAForgottenAttempt(t *testing.T) {
	c := electiontest.VirtualClock(1)
	d := newDeaf(c)
	e, sick, _ := mayBeSick(t, d, c)
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	ended := make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
	}()
	<-d.asked
	sick.Store(true)
	bare := <-d.released // after 500 ms: the attempt is over, and forgotten at once
	synctest.Wait()
	close(d.answer)
	select {
	case again := <-d.released:
		if again != bare || d.holds() != 0 {
			t.Errorf("claim %s was released, expected %s; %d are held", again, bare, d.holds())
		}
	case <-time.After(20 * time.Second):
		t.Errorf("nothing was released, and %d are held", d.holds())
	}
	cancel()
	<-ended
}

// mayBeSick returns a candidate that is unhealthy while sick is set, and a channel that
// reports each check since then.
func mayBeSick(t *testing.T, b election.Backend, c clock.Clock) (e *election.Elector, sick *atomic.Bool, checked chan struct{}) {
	t.Helper()
	sick, checked = new(atomic.Bool), make(chan struct{}, 1000)
	e, err := election.New(b, "jobs", election.Options{Once: true, Lease: 100 * time.Millisecond, Clock: c, Health: func(context.Context) error {
		if sick.Load() {
			checked <- struct{}{}
			return errors.New("sick")
		}
		return nil
	}, HealthEvery: 10 * time.Millisecond, HealthFailures: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e, sick, checked
}
