package record_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
)

// trialCandidate is one program: an Elector on a backend of its own, and user code that takes
// its time whenever it is called.
type trialCandidate struct {
	t       *trial
	n       int
	id      string
	rng     *rand.Rand // of this program, behind mu
	link    *trialLink
	clock   *trialClock
	elector *election.Elector
	options election.Options
	checked bool // it has a health check

	mu        sync.Mutex
	resumed   chan struct{} // closed when it runs again; nil while it runs
	lastStop  time.Time     // when it was paused last
	paused    time.Duration // total time
	notifying int           // calls of OnEvent that have not returned
	told      chan struct{} // closed when there is no such call
	sick      time.Time     // since when its health check fails; zero if it does not
	warmed    bool          // since it led or was started
	terms     []*trialTerm
	elected   int
	lost      int
}

// chance is true once in n times, for this program.
func (c *trialCandidate) chance(n int) bool { return c.pick(n) == 0 }

func (c *trialCandidate) pick(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// pause stops the program for a time: its clock continues, nothing else does.
func (c *trialCandidate) pause(lasts time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed != nil {
		return
	}
	resumed, began := make(chan struct{}), time.Now()
	c.resumed, c.lastStop = resumed, began
	time.AfterFunc(lasts, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.resumed = nil
		c.paused += lasts
		c.lastStop = time.Now()
		close(resumed)
	})
}

func (c *trialCandidate) awaitRunning() {
	for {
		c.mu.Lock()
		resumed := c.resumed
		c.mu.Unlock()
		if resumed == nil {
			return
		}
		<-resumed
	}
}

// wasPaused reports whether the program is paused, or was since.
func (c *trialCandidate) wasPaused(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resumed != nil || !c.lastStop.Before(since)
}

// block is user code that takes its time, as long as there are faults.
func (c *trialCandidate) block(oneIn int) {
	if c.t.healed.Err() == nil && c.chance(oneIn) {
		trialNap(c.t.healed, time.Duration(c.pick(3000))*time.Millisecond)
	}
	c.awaitRunning()
}

func (c *trialCandidate) onEvent(e election.Event) {
	c.mu.Lock()
	c.notifying++
	switch e.Kind {
	case election.EventElected:
		c.elected++
	case election.EventLost:
		c.lost++
	}
	c.mu.Unlock()
	c.block(8)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notifying--
	if c.notifying == 0 && c.told != nil {
		close(c.told)
		c.told = nil
	}
}

// awaitTold waits until OnEvent has returned, for a mutant.
func (c *trialCandidate) awaitTold() {
	c.mu.Lock()
	if c.notifying > 0 && c.told == nil {
		c.told = make(chan struct{})
	}
	told := c.told
	c.mu.Unlock()
	if told != nil {
		<-told
	}
}

func (c *trialCandidate) warm(ctx context.Context) error {
	trialNap(c.t.healed, time.Duration(c.pick(200))*time.Millisecond)
	c.block(4)
	if c.chance(10) {
		return errors.New("the cache cannot be filled")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warmed = true
	return nil
}

func (c *trialCandidate) health(context.Context) error {
	c.block(30)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sick.IsZero() {
		return errors.New("the disk is full")
	}
	return nil
}

func (c *trialCandidate) onStuck(lead election.Leadership) {
	c.mu.Lock()
	for _, term := range c.terms {
		term.stuck = term.stuck || term.token == lead.Token()
	}
	c.mu.Unlock()
	c.block(2)
}

// trialTerm is one run of the leader's function.
type trialTerm struct {
	c     *trialCandidate
	lead  election.Leadership
	token election.Token
	ctx   context.Context
	from  time.Time
	told  time.Time // when its context ended; behind trial.mu
	ended bool      // the function has returned; behind trial.mu
	asked bool      // somebody has asked it to resign; behind trial.mu
	stuck bool      // OnStuck was called; behind c.mu
}

// function leads: it acts from time to time, and ends by itself or is told to end, after which
// it may take its time.
func (c *trialCandidate) function(ctx context.Context, lead election.Leadership) error {
	c.awaitRunning()
	term := &trialTerm{c: c, lead: lead, token: lead.Token(), ctx: ctx, from: time.Now()}
	stop := context.AfterFunc(ctx, func() {
		c.t.mu.Lock()
		defer c.t.mu.Unlock()
		term.told = time.Now()
	})
	defer stop()
	c.t.begin(term)
	defer c.t.end(term)
	limit := time.Duration(200+c.pick(4000)) * time.Millisecond
	if c.t.healed.Err() != nil {
		limit = time.Duration(50+c.pick(100)) * time.Millisecond
	}
	enough := time.Now().Add(limit)
	if c.chance(2) { // it relies on its context alone
		trialNap(ctx, limit)
	}
	for time.Now().Before(enough) && !term.isTold() {
		c.t.act(term)
		c.help(term)
		if !trialNap(ctx, time.Duration(1+c.pick(60))*time.Millisecond) {
			break
		}
		c.awaitRunning()
	}
	for c.t.act(term); term.isTold() && term.leads(); c.t.act(term) { // up to the last moment
		time.Sleep(term.lead.Remaining()/2 + time.Microsecond)
		c.awaitRunning()
	}
	c.block(3)
	if c.chance(20) {
		return errors.New("the work has failed")
	}
	return nil
}

// help asks for the end of this leadership, for the end of another, or for a transfer, in all
// ways that exist.
func (c *trialCandidate) help(term *trialTerm) {
	if c.t.healed.Err() != nil {
		return
	}
	switch c.pick(250) {
	case 0:
		c.t.asks(term)
		term.lead.Resign()
	case 1, 2, 3:
		if old := c.former(term); old != nil {
			c.t.asks(old)
			if c.t.mutant == trialStaleResign {
				c.t.background.Go(func() { _ = c.elector.Resign(c.t.healed) })
			} else {
				old.lead.Resign()
			}
		}
	case 4:
		c.t.asks(term)
		c.call("Resign", func(ctx context.Context) { _ = c.elector.Resign(ctx) })
	case 5, 6, 7:
		to := fmt.Sprint("c", c.pick(len(c.t.candidates)))
		c.call("TransferTo", func(ctx context.Context) { _ = c.elector.TransferTo(ctx, to) })
	case 8:
		c.t.asks(term)
		c.call("Ask", func(ctx context.Context) {
			_ = c.t.operator.Ask(ctx, "e", election.Request{Token: term.token})
		})
	}
}

// former is an earlier leadership of this program that is over.
func (c *trialCandidate) former(now *trialTerm) *trialTerm {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.terms) - 1; i >= 0; i-- {
		if c.terms[i] != now {
			return c.terms[i]
		}
	}
	return nil
}

// call makes a call with a time limit, by which it must return.
func (c *trialCandidate) call(name string, call func(context.Context)) {
	limit := time.Duration(c.pick(3000)) * time.Millisecond
	c.t.background.Go(func() {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		call(ctx)
		if took := time.Since(began); took > limit+100*time.Millisecond && !c.wasPaused(began) {
			c.t.fail("%s of %s took %v with a limit of %v", name, c.id, took, limit)
		}
	})
}

// trialNap sleeps, and reports whether it has slept long enough.
func trialNap(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
