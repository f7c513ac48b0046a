package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/elector"
)

// Run campaigns and runs the function while this candidate leads. It returns when the function
// has returned and the election was released or is left to expire. If the store does not answer,
// Run tries to release the election for half of the lease, but at most for five seconds; it does
// not try again if the backend was closed.
//
// The function's context ends before anybody else may lead, with the reason as
// its cause. Run returns
//
//   - the function's error, when it returned by itself;
//   - a *LostError, when the leadership was lost, including for failed health checks;
//   - nil after Resign and after a transfer, and the cause of ctx after ctx ended, unless the
//     function returned an error of its own;
//   - an error that matches ErrPermanent, when no attempt can succeed; see
//     Permanent.
//
// Run campaigns again after a leadership. It ends only with ctx, with an error that the function
// returned by itself, or with one that matches ErrPermanent; with Options.Once, also with the
// first leadership. A panic of the function propagates out of Run after the election was
// released.
func (e *Elector) Run(ctx context.Context, function func(context.Context, Leadership) error) error {
	return e.start(newRun(e, ctx, function, e.options.Once))
}

// start carries out a run, unless another one is in progress.
func (e *Elector) start(r *run) error {
	if e.backend == nil {
		return errNotMade
	}
	e.mu.Lock()
	busy := e.run != nil
	if !busy {
		e.run = r
	}
	e.mu.Unlock()
	if busy {
		return fmt.Errorf("election %q: %w", e.name, ErrRunning)
	}
	defer func() {
		e.mu.Lock()
		e.run = nil
		e.mu.Unlock()
	}()
	r.loop()
	return r.result()
}

// reportsMax bounds the reports that wait for the loop. It is small because only a few
// goroutines report, they can wait, and a process may have ten thousand loops.
const reportsMax = 8

// run is one call of Run. The loop owns all fields except those that the mutex guards.
type run struct {
	elector  *Elector
	ctx      context.Context
	function func(context.Context, Leadership) error

	machine  *elector.Machine
	reports  chan report
	done     chan struct{} // closed when the machine has finished
	workers  sync.WaitGroup
	attempts map[uint64]*attempt
	renewals map[uint64]context.CancelFunc

	finished  bool
	reason    elector.Reason
	why       Reason // why the last leadership ends or has ended, for Status
	lastErr   error
	lossErr   error // lastErr without failed releases: a release follows a loss and does not explain it
	refused   error // the store's permanent error; see elector.Refused
	healthErr error
	outcome   outcome

	tries bool  // started by Try: the run ends if it cannot lead
	kept  error // why a Try cannot lead; nil for nothing

	transfers  []*transfer // requested and not yet answered; only during a leadership
	nomination *nomination // the one that began last; nil for none

	mu   sync.Mutex
	term *term // the current leadership until it is released
	over chan struct{}
}

// attempt is one campaign: its claim, and its grant once there is one.
type attempt struct {
	claim    Claim
	cancel   context.CancelFunc
	grant    Grant
	honoured Request // the last request of an operator that was carried out
	untold   bool    // its first event was dropped, so its other events are dropped too
}

// report is an event for the machine, with data that only the loop needs.
type report struct {
	event    elector.Event
	grant    Grant
	err      error
	transfer *transfer
}

func newRun(e *Elector, ctx context.Context, function func(context.Context, Leadership) error, once bool) *run {
	o := e.options
	return &run{
		elector:  e,
		ctx:      ctx,
		function: function,
		machine: elector.New(elector.Config{
			LeaseMs:      o.Lease.Milliseconds(),
			GraceMs:      o.Grace.Milliseconds(),
			DriftPercent: int64(o.ClockDriftPercent),
			RetryMs:      millisUp(o.Retry),
			RetryMaxMs:   millisUp(o.RetryMax),
			EndLimitMs:   millisUp(max(0, o.EndLimit)),
			ReleaseMs:    (releaseLimit(o.Lease) + releaseTold).Milliseconds(),
			Forever:      !once,
			Seed:         randomSeed(),

			HealthFailures: healthFailures(o),
		}),
		reports:  make(chan report, reportsMax),
		done:     make(chan struct{}),
		attempts: make(map[uint64]*attempt),
		renewals: make(map[uint64]context.CancelFunc),
	}
}

// millisUp rounds up to whole milliseconds: the machine takes 0 as no pause, or as no
// limit.
func millisUp(d time.Duration) int64 {
	whole := d.Milliseconds()
	if d%time.Millisecond > 0 {
		whole++
	}
	return whole
}

// loop runs the machine until it has finished.
func (r *run) loop() {
	stop := r.ctx.Done()
	r.step(elector.Start{})
	endChecks := r.startChecks()
	for !r.finished {
		timer := r.timer()
		select {
		case one := <-r.reports:
			if stop != nil && r.ctx.Err() != nil { // after ctx has ended, a grant that arrived at the same moment must not elect
				stop = nil
				r.step(elector.Stop{})
			}
			r.receive(one)
		case <-stop:
			stop = nil
			r.step(elector.Stop{})
		case <-timer.C():
			r.step(elector.Tick{})
		}
		timer.Stop()
	}
	close(r.done)
	endChecks()
	for _, a := range r.attempts {
		a.cancel()
	}
	r.setTerm(nil)
	r.publish()
	r.workers.Wait()
	r.returnLate()
	r.elector.teller.await(min(max(r.elector.options.Lease/4, minRelease), maxRelease))
}

// returnLate releases the grants that were reported after the loop had ended. All workers
// have ended, so none can be added.
func (r *run) returnLate() {
	for {
		select {
		case one := <-r.reports:
			if _, ok := one.event.(elector.Acquired); ok {
				_ = r.returnGrant(one.grant)
			}
		default:
			return
		}
	}
}

func (r *run) timer() clock.Timer {
	if wakeMs, ok := r.machine.WakeMs(); ok {
		return r.elector.options.Clock.Timer(clock.FromMillis(wakeMs))
	}
	return noTimer{}
}

// noTimer never fires.
type noTimer struct{}

func (noTimer) C() <-chan struct{} { return nil }
func (noTimer) Stop()              {}

// report sends an event to the loop; it returns false if the loop has ended.
func (r *run) report(one report) bool {
	select {
	case r.reports <- one:
		return true
	case <-r.done:
		return false
	}
}

// receive keeps what the run needs of a report, and gives its event to the machine.
func (r *run) receive(one report) {
	switch e := one.event.(type) {
	case elector.Acquired:
		a := r.attempts[e.Attempt]
		if a == nil {
			// The attempt was abandoned and removed before its answer came.
			r.workers.Go(func() { _ = r.returnGrant(one.grant) })
			return
		}
		a.grant = one.grant
		defer r.honour(e.Attempt) // an operator's request may have arrived before Acquire returned
	case elector.AcquireFailed:
		if e.Final {
			r.refused = one.err
		}
		r.note(EventCampaignFailed, e.Attempt, one.err)
		defer r.keep(one.err)
	case elector.RenewFailed:
		r.dropRenewal(e.Renewal)
		r.note(EventRenewFailed, e.Attempt, one.err)
	case elector.Renewed:
		r.dropRenewal(e.Renewal)
		if a := r.attempts[e.Attempt]; a != nil && r.machine.Leads() && one.grant.Sent >= a.grant.Sent {
			one.grant.Ended = a.grant.Ended
			a.grant = one.grant
			r.tell(Event{Kind: EventRenewed, Attempt: e.Attempt, Remaining: r.remaining()})
		}
		defer r.honour(e.Attempt)
	case elector.Transfer:
		if r.term == nil || r.term.attempt != one.transfer.attempt || r.term.ctx.Err() != nil {
			one.transfer.answered <- ErrNotLeader // or it is ending: the machine would ignore the event or apply it to another leadership
			return
		}
		r.transfers = append(r.transfers, one.transfer)
	case elector.Nominated:
		r.nominated(e, one.err)
		defer r.transferNext()
	case elector.Health:
		r.healthErr = one.err
		r.note(EventHealthFailed, 0, one.err)
		if one.err != nil {
			defer r.keep(one.err)
		}
	case elector.Stop:
		r.keep(one.err) // watchOthers has seen another leader
		return
	case elector.Released:
		if one.err != nil {
			r.note(EventReleaseFailed, e.Attempt, one.err)
		}
		r.forget(e.Attempt)
	}
	r.step(one.event)
}

// remaining returns the time until the deadline of the current leadership.
func (r *run) remaining() time.Duration {
	if r.term == nil {
		return 0
	}
	return Leadership{r.term}.Remaining()
}

// note keeps an error for the result and reports it. It ignores the error of a call that
// the run itself has cancelled.
func (r *run) note(kind EventKind, attempt uint64, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	r.lastErr = err
	if kind != EventReleaseFailed {
		r.lossErr = err
	}
	event := Event{Kind: kind, Attempt: attempt, Err: err}
	if kind == EventRenewFailed {
		event.Remaining = r.remaining()
	}
	if r.term != nil {
		r.term.lastErr.Store(&err)
	}
	r.tell(event)
}

func (r *run) tell(event Event) { r.tellThen(event, nil) }

// tellThen closes the channel when OnEvent was called with the event, or the event was
// dropped.
func (r *run) tellThen(event Event, told chan struct{}) {
	event.Election = r.elector.name
	a := r.attempts[event.Attempt]
	switch {
	case a != nil && a.untold:
		r.elector.teller.leaveOut(told)
		return
	case a != nil && event.Token == 0:
		event.Token = a.grant.Token
	}
	if kept := r.elector.teller.tell(event, told); !kept && event.Kind == EventCampaigning {
		a.untold = true
	}
}

// forget removes an attempt that was released.
func (r *run) forget(number uint64) {
	if a := r.attempts[number]; a != nil {
		a.cancel()
		delete(r.attempts, number)
	}
	r.mu.Lock()
	mine := r.term != nil && r.term.attempt == number
	r.mu.Unlock()
	if mine {
		r.setTerm(nil)
	}
}

// setTerm sets the current leadership. The end of the previous one wakes those who wait for
// it in resign or transfer.
func (r *run) setTerm(t *term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		close(r.over)
		r.over = nil
	}
	r.term = t
	if t != nil {
		r.over = make(chan struct{})
	}
}

// present returns the attempt of the current leadership, and a channel that is closed when
// the leadership was released; the channel is nil if there is none.
func (r *run) present() (attempt uint64, over <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term == nil {
		return 0, nil
	}
	return r.term.attempt, r.over
}

// resign asks for the end of the current leadership and waits for it.
func (r *run) resign(ctx context.Context) error {
	attempt, over := r.present()
	if over == nil || !r.report(report{event: elector.Resign{Attempt: attempt}}) {
		return ErrNotLeader
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// result returns the error of Run.
func (r *run) result() error {
	r.outcome.repanic()
	own := r.outcome.own()
	lost := &LostError{r.elector.name, r.outcome.token, Reason(r.reason), r.lossErr}
	switch r.reason {
	case elector.Refused:
		return fmt.Errorf("election %q: %w", r.elector.name, r.refused)
	case elector.TokenStale:
		return Permanent(lost)
	case elector.Expired, elector.Taken:
		return errors.Join(lost, own)
	case elector.Unhealthy:
		lost.Err = r.healthErr
		return errors.Join(lost, own)
	case elector.Stopped:
		switch {
		case own != nil:
			return own
		case r.kept != nil && r.ctx.Err() == nil:
			return r.kept
		}
		return context.Cause(r.ctx)
	case elector.Resigned, elector.Transferred:
		return own
	}
	return r.outcome.err
}
