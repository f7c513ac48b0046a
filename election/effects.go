package election

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/internal/elector"
)

// minRelease and maxRelease bound the time for a release. If a release does not succeed in
// that time, the grant expires in the store: other candidates wait for the rest of the
// lease, but no process needs hours to end.
const (
	minRelease = 500 * time.Millisecond
	maxRelease = 5 * time.Second
)

// releaseLimit returns the time for the release of a grant with the given lease.
func releaseLimit(lease time.Duration) time.Duration {
	return min(max(lease/2, minRelease), maxRelease)
}

// releaseTold is how much longer the machine waits for a release: one that has used all of
// its time must still report that it has failed.
const releaseTold = 250 * time.Millisecond

// releasePause is the pause between two attempts to release.
const releasePause = 50 * time.Millisecond

// step gives the machine an event and carries out the effects.
func (r *run) step(event elector.Event) {
	for _, effect := range r.machine.Step(r.nowMs(), event) {
		r.carryOut(effect)
	}
	r.publish()
}

func (r *run) nowMs() int64 { return r.elector.options.Clock.Now().Millis() }

func (r *run) carryOut(effect elector.Effect) {
	switch e := effect.(type) {
	case elector.Acquire:
		r.acquire(e)
	case elector.Abandon:
		r.attempts[e.Attempt].cancel()
	case elector.Elect:
		r.elect(e)
	case elector.Renew:
		r.renew(e)
	case elector.CancelRenew:
		r.cancelRenewal(e)
	case elector.Extend:
		r.term.prove(e.DeadlineMs, e.EndMs, r.attempts[e.Attempt].grant)
	case elector.End:
		r.end(e)
	case elector.Nominate:
		r.nominate(e)
	case elector.Lost:
		if a := r.attempts[e.Attempt]; a != nil {
			a.grant.Ended = Reason(e.Reason)
		}
		r.why = Reason(e.Reason)
		r.tell(Event{Kind: EventLost, Attempt: e.Attempt, Reason: Reason(e.Reason)})
	case elector.Stuck:
		r.stuck(e)
	case elector.Release:
		r.release(e)
	case elector.Finish:
		r.finished, r.reason, r.why = true, e.Reason, Reason(e.Reason)
	}
}

// acquire calls the backend in a goroutine of its own. The end of Run's context does not
// end the attempt: only the machine does, and always with a release.
func (r *run) acquire(e elector.Acquire) {
	options := r.elector.options
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	claim := Claim{Election: r.elector.name, ID: options.ID, Nonce: newNonce(), Lease: options.Lease,
		Priority: options.Priority, Metadata: options.Metadata}
	warmUp := newWarmUp(options.Warm)
	if warmUp != nil {
		claim.Warm = warmUp.run
	}
	r.attempts[e.Attempt] = &attempt{claim: claim, cancel: cancel, grant: Grant{Claim: claim}}
	r.why = 0
	r.outcome = outcome{} // the outcome of the previous leadership no longer matters
	r.tell(Event{Kind: EventCampaigning, Attempt: e.Attempt})
	r.workers.Go(func() {
		began := options.Clock.Now()
		grant, err := r.elector.backend.Acquire(ctx, claim)
		if err == nil || options.Clock.Now().Sub(began) >= servedAfter {
			r.elector.served.Store(true)
		}
		warmUp.finish(min(options.Lease/4, maxRelease))
		if err == nil {
			err = grant.check()
		}
		if err != nil {
			r.report(report{event: elector.AcquireFailed{Attempt: e.Attempt, Final: r.elector.final(err)}, err: err})
			return
		}
		if !r.report(report{event: elector.Acquired{Attempt: e.Attempt, Token: uint64(grant.Token),
			SentMs: grant.Sent.Millis(), LeaseMs: grant.Lease.Milliseconds()}, grant: grant}) {
			_ = r.returnGrant(grant) // the loop has ended
		}
	})
}

// servedAfter: an attempt that waited this long was served by the store. A store that
// cannot serve an attempt refuses it sooner.
const servedAfter = 10 * time.Second

// final reports whether Run ends with this error. If the store has served this Elector
// before, one permanent error does not end Run: the candidate, and all others, may have
// waited for weeks.
func (e *Elector) final(err error) bool {
	return errors.Is(err, ErrPermanent) && (!e.served.Load() || errors.Is(err, ErrClosed))
}

// check returns an error for a grant that no correct backend returns.
func (g Grant) check() error {
	if g.Token == 0 || g.Lease < time.Millisecond {
		return Permanent(fmt.Errorf("the backend gave token %d with lease %v", g.Token, g.Lease))
	}
	return nil
}

func (r *run) elect(e elector.Elect) {
	r.lastErr, r.lossErr = nil, nil
	a := r.attempts[e.Attempt]
	t := &term{claim: a.claim, attempt: e.Attempt, token: a.grant.Token, files: a.grant.Files,
		guard: a.grant.Guard, clock: r.elector.options.Clock}
	t.ended = func() { r.report(report{event: elector.EndSeen{Attempt: e.Attempt}}) }
	t.resign = func() { r.report(report{event: elector.Resign{Attempt: e.Attempt}}) }
	t.hurry = func() { r.report(report{event: elector.Hurry{Attempt: e.Attempt}}) }
	t.prove(e.DeadlineMs, e.EndMs, a.grant)
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(r.ctx))
	r.setTerm(t)
	r.publish() // before the function can ask for the status
	told := make(chan struct{})
	r.tellThen(Event{Kind: EventElected, Attempt: e.Attempt, Lease: a.grant.Lease}, told)
	r.workers.Go(t.watchDeadline)
	lost, news := a.grant.Lost, a.grant.News
	r.workers.Go(func() { r.watchLoss(t, lost) })
	if news != nil {
		r.workers.Go(func() { r.watchNews(t, news) })
	}
	r.workers.Go(func() {
		t.awaitTold(told)
		call(&leaderContext{t.ctx, t}, Leadership{t}, r.function, func(o outcome) { r.functionEnded(t, o) })
	})
}

// awaitTold waits until OnEvent was called for this leadership, so that a span or a metric
// exists when the function begins. It waits no longer than a renewal may take.
func (t *term) awaitTold(told <-chan struct{}) {
	timer := time.NewTimer(t.proof.Load().lease / 4)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// watchLoss reports that the backend has learned of the loss of the grant.
func (r *run) watchLoss(t *term, lost <-chan struct{}) {
	select {
	case <-lost:
		r.report(report{event: elector.LossSeen{Attempt: t.attempt}})
	case <-t.ctx.Done():
		// While the function is ending, a loss must still be reported.
		select {
		case <-lost:
			r.report(report{event: elector.LossSeen{Attempt: t.attempt}})
		case <-r.overOf(t):
		}
	}
}

// watchNews asks for a renewal whenever the backend signals news.
func (r *run) watchNews(t *term, news <-chan struct{}) {
	for {
		select {
		case _, open := <-news:
			if !open || !r.report(report{event: elector.Hurry{Attempt: t.attempt}}) {
				return
			}
		case <-t.ctx.Done():
			return
		}
	}
}

// overOf returns a channel that is closed when the leadership is released.
func (r *run) overOf(t *term) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term == t {
		return r.over
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// functionEnded runs in the goroutine of the function. It may write the outcome without a
// lock, because the loop reads it only after this event.
func (r *run) functionEnded(t *term, o outcome) {
	byItself := t.ctx.Err() == nil
	final := o.panicked || byItself && o.err != nil
	r.outcome = o
	r.report(report{event: elector.FunctionEnded{Attempt: t.attempt, Final: final}})
}

func (r *run) renew(e elector.Renew) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	r.renewals[e.Renewal] = cancel
	old := r.attempts[e.Attempt].grant
	r.workers.Go(func() {
		grant, err := r.elector.backend.Renew(ctx, old)
		if err == nil && grant.Token != old.Token {
			err = fmt.Errorf("%w: renewed with token %d instead of %d", ErrLost, grant.Token, old.Token)
		}
		if err != nil {
			r.report(report{event: elector.RenewFailed{Attempt: e.Attempt, Renewal: e.Renewal,
				Lost: errors.Is(err, ErrLost)}, err: err})
			return
		}
		r.report(report{event: elector.Renewed{Attempt: e.Attempt, Renewal: e.Renewal,
			SentMs: grant.Sent.Millis(), LeaseMs: grant.Lease.Milliseconds(), Rival: grant.Rival != ""}, grant: grant})
	})
}

// dropRenewal cancels a renewal, if it still runs, and forgets it.
func (r *run) dropRenewal(number uint64) {
	if cancel := r.renewals[number]; cancel != nil {
		cancel()
		delete(r.renewals, number)
	}
}

// cancelRenewal gives up waiting for a renewal. It reports that the store did not answer,
// no matter what the cancelled call returns and when.
func (r *run) cancelRenewal(e elector.CancelRenew) {
	if r.renewals[e.Renewal] != nil && r.machine.Leads() {
		r.note(EventRenewFailed, e.Attempt, errNoAnswer)
	}
	r.dropRenewal(e.Renewal)
}

var (
	errNoAnswer = errors.New("the store did not answer in time")
	errTooSlow  = errors.New("the store did not answer the renewal in time: " +
		"if this happens repeatedly, the lease is too short for the connection to the store")
)

// end cancels the function's context; the cause says why.
func (r *run) end(e elector.End) {
	r.why = Reason(e.Reason)
	if e.Reason == elector.Expired && r.lossErr == nil && len(r.renewals) > 0 {
		r.note(EventRenewFailed, e.Attempt, errTooSlow)
	}
	r.tell(Event{Kind: EventEnding, Attempt: e.Attempt, Reason: Reason(e.Reason)})
	switch e.Reason {
	case elector.Resigned:
		r.term.cancel(ErrResigned)
	case elector.Transferred:
		r.term.cancel(ErrTransferred)
	case elector.Stopped:
		r.term.cancel(context.Cause(r.ctx))
	case elector.Returned:
		r.term.cancel(context.Canceled)
	case elector.Unhealthy:
		r.term.cancel(&LostError{r.elector.name, r.term.token, ReasonUnhealthy, r.healthErr})
	default:
		r.term.cancel(r.term.lost(Reason(e.Reason)))
	}
	r.endTransfers(context.Cause(r.term.ctx))
}

func (r *run) stuck(e elector.Stuck) {
	r.tell(Event{Kind: EventStuck, Attempt: e.Attempt})
	if onStuck := r.elector.options.OnStuck; onStuck != nil {
		lead := Leadership{r.term}
		go onStuck(lead) // usually ends the process, so nothing waits for it
	}
}

// release releases the grant of an attempt.
func (r *run) release(e elector.Release) {
	a := r.attempts[e.Attempt]
	if a == nil {
		return
	}
	a.cancel()
	grant := a.grant
	r.workers.Go(func() {
		err := r.returnGrant(grant)
		r.report(report{event: elector.Released{Attempt: e.Attempt}, err: err})
	})
}

// returnGrant releases a grant. It tries again until the backend confirms it, the error is
// final, or the time is up; then the grant expires in the store. The time depends on the
// lease that the store granted, and is never longer than the machine waits (ReleaseMs).
func (r *run) returnGrant(grant Grant) error {
	lease := r.elector.options.Lease
	if grant.Lease > 0 {
		lease = min(lease, grant.Lease)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), releaseLimit(lease))
	defer cancel()
	for {
		err := r.elector.backend.Release(ctx, grant)
		if err == nil || r.elector.final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(releasePause):
		}
	}
}

// newNonce returns 16 random bytes in hexadecimal. crypto/rand never fails.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:])
}
