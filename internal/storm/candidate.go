package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/internal/bubble"
)

// Candidate is a machine with one candidate at a time, over one backend. The candidate may
// also be a member of a group.
type Candidate struct {
	Machine int
	Clock   clock.Clock
	Elector *election.Elector

	storm   *Storm
	leave   chan struct{} // capacity 1: it leaves the election and comes back later, with the same backend
	leaveIn atomic.Int64  // if above zero, it leaves after this many answers
	vanish  func()        // ends it, and returns when nothing of it is left
	dead    chan struct{}

	mu     sync.Mutex
	random *rand.Rand
}

// Candidate returns a machine; Stand makes it campaign.
func (w *Storm) Candidate(machine int) *Candidate {
	return &Candidate{storm: w, Machine: machine, Clock: bubble.DriftingClock(w.Random), leave: make(chan struct{}, 1), dead: make(chan struct{}),
		random: rand.New(rand.NewPCG(w.Random.Uint64(), 3))}
}

// Stand lets the candidate campaign over a backend, which end closes when the candidate
// vanishes.
func (c *Candidate) Stand(backend election.Backend, end func() error) error {
	w := c.storm
	options := election.Options{ID: fmt.Sprint("c", c.Machine), Lease: w.Lease,
		Clock: c.Clock, Retry: 50 * time.Millisecond, RetryMax: time.Second, Priority: w.Random.IntN(2)}
	backend = judged{backend, w}
	var err error
	if c.Elector, err = election.New(backend, Election, options); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	run := func(run func(here, life context.Context) error) {
		ended.Go(func() {
			if err := c.campaign(ctx, 2*w.Lease, run); ctx.Err() == nil {
				w.Breach("%s has ended: %v", c.Elector.ID(), err)
			}
		})
	}
	run(func(here, _ context.Context) error {
		return c.Elector.Run(here, c.unlessGone(here, w.lead(c, Election)))
	})
	if w.Grouped {
		run(func(here, life context.Context) error { return c.join(backend, options, here, life) })
	}
	c.vanish = func() {
		close(c.dead)
		cancel()
		ended.Wait()
		_ = end()
	}
	w.Running = append(w.Running, c)
	return nil
}

// judged is a backend that records the releases (storm-S8).
type judged struct {
	election.Backend
	storm *Storm
}

// Release records the claim once it is released.
func (j judged) Release(ctx context.Context, grant election.Grant) error {
	err := j.Backend.Release(ctx, grant)
	if err == nil {
		j.storm.mu.Lock()
		defer j.storm.mu.Unlock()
		j.storm.ended[grant.Claim.Nonce] = true
	}
	return err
}

// Nominate calls the backend's.
func (j judged) Nominate(ctx context.Context, grant election.Grant, id string) error {
	return j.Backend.(election.Nominator).Nominate(ctx, grant, id)
}

// Stands must be called after a request, with the nonces of the claims that the store then
// has.
func (w *Storm) Stands(nonces ...string) {
	w.mu.Lock()
	found := slices.IndexFunc(nonces, func(nonce string) bool { return w.ended[nonce] })
	w.mu.Unlock()
	if found >= 0 {
		w.Breach("claim %s stands in the store after its release", nonces[found])
	}
}

// unlessGone returns a function for an Elector that must not be called after the context
// has ended (storm-S3).
func (c *Candidate) unlessGone(here context.Context, lead func(context.Context, election.Leadership) error) func(context.Context, election.Leadership) error {
	var left atomic.Pointer[time.Time]
	context.AfterFunc(here, func() {
		now := time.Now()
		left.Store(&now)
	})
	return func(ctx context.Context, leadership election.Leadership) error {
		if at := left.Load(); at != nil && at.Before(time.Now()) {
			c.storm.Breach("%s is elected %v after it has left", c.Elector.ID(), time.Since(*at))
		}
		return lead(ctx, leadership)
	}
}

// join takes part in the group until the candidate is to be away.
func (c *Candidate) join(backend election.Backend, options election.Options, here, life context.Context) error {
	member, err := partition.New(backend, Group, partition.Options{Partitions: Partitions,
		MembersMax: 2 * Candidates, MaxMoves: 2, Election: options})
	if err != nil {
		return err
	}
	if c.awhile(2) == 0 { // it hands over its partitions before it is away
		defer context.AfterFunc(here, member.Leave)()
		here = life
	}
	return member.Run(here, func(ctx context.Context, p int, leads election.Leadership) error {
		return c.storm.lead(c, fmt.Sprint("partition ", p))(ctx, leads)
	})
}

// awhile returns a random time below the limit.
func (c *Candidate) awhile(limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.random.Int64N(int64(limit)))
}

// campaign calls run again and again, with breaks in which the candidate is away, until its
// life ends.
func (c *Candidate) campaign(life context.Context, away time.Duration, run func(here, life context.Context) error) error {
	for {
		here, leave := context.WithCancel(life)
		go func() {
			defer leave()
			select {
			case <-c.leave:
			case <-here.Done():
			}
		}()
		err := run(here, life)
		over := here.Err() == nil
		leave()
		switch {
		case life.Err() != nil:
			return nil
		case over, err != nil && !errors.Is(err, context.Canceled):
			return err
		}
		select {
		case <-time.After(c.awhile(away)):
		case <-life.Done():
		}
	}
}

// Leave makes a candidate leave for a while and keep its backend.
func (c *Candidate) Leave() {
	c.storm.Say("%s leaves for a while", c.Elector.ID())
	select {
	case c.leave <- struct{}{}:
	default: // it is already away
	}
}

// Answered must be called with each answer of the store, so that a candidate can leave
// after one.
func (c *Candidate) Answered() {
	if c.leaveIn.Add(-1) == 0 {
		c.Leave()
	}
}

// Vanish ends a running candidate.
func (w *Storm) Vanish(c *Candidate) {
	w.Say("%s vanishes", c.Elector.ID())
	w.Running = slices.DeleteFunc(w.Running, func(other *Candidate) bool { return other == c })
	w.Gone.Go(c.vanish)
}

// Any returns a running candidate.
func (w *Storm) Any() *Candidate { return w.Running[w.Random.IntN(len(w.Running))] }

// Leader returns the candidate that leads by its own account; nil for none.
func (w *Storm) Leader() *Candidate {
	for _, c := range w.Running {
		if c.Elector.IsLeader() {
			return c
		}
	}
	return nil
}

// LeaderOrAny returns the leader, or in one of oneIn cases any candidate.
func (w *Storm) LeaderOrAny(oneIn int) *Candidate {
	leader, other := w.Leader(), w.Any()
	if leader == nil || w.Random.IntN(oneIn) == 0 {
		return other
	}
	return leader
}

// Operate requests a hand-over, from the machine of a candidate.
func (w *Storm) Operate() {
	from, to := w.LeaderOrAny(2), w.Any()
	resign := w.Random.IntN(2) == 0
	w.Say("%s asks for a hand-over to %s, or anybody: %v", from.Elector.ID(), to.Elector.ID(), resign)
	w.Gone.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*w.Lease)
		defer cancel()
		if resign {
			_ = from.Elector.Resign(ctx)
		} else {
			_ = from.Elector.TransferTo(ctx, to.Elector.ID())
		}
	})
	for _, c := range w.Running { // perhaps in the middle of the hand-over
		if w.Random.IntN(3) == 0 {
			c.leaveIn.Store(1 + w.Random.Int64N(16))
		}
	}
}
