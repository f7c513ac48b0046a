package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/elector"
)

// transfer is one call of TransferTo, or a request of an operator, for which
// nobody waits.
type transfer struct {
	attempt  uint64 // of the leadership that is to be handed over
	to       string
	tried    bool       // its candidate was nominated after it was asked for
	answered chan error // one error, nil once the nominee is ready
}

// transfer asks for a hand-over and waits for the end of the leadership.
func (r *run) transfer(ctx context.Context, to string) error {
	attempt, over := r.present()
	t := &transfer{attempt: attempt, to: to, answered: make(chan error, 1)}
	if over == nil || !r.report(report{event: elector.Transfer{}, transfer: t}) {
		return ErrNotLeader
	}
	if err := t.await(ctx, r.done); err != nil {
		return fmt.Errorf("election %q: hand over to %q: %w", r.elector.name, to, err)
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await returns the answer. A loop that is done has answered whatever it has seen:
// what it has not came after its last report.
func (t *transfer) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case err := <-t.answered:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
	}
	select {
	case err := <-t.answered:
		return err
	default:
		return ErrNotLeader
	}
}

// answerTransfers tells everybody who asked for this candidate what came of
// it. The others come next if it was nothing, and are told if it was not; so does
// who asked for the same one meanwhile, since it may have got ready.
func (r *run) answerTransfers(to string, err error) {
	var next []*transfer
	for _, t := range r.transfers {
		switch {
		case t.to == to && (t.tried || err == nil):
			t.answered <- err
		case err == nil:
			t.answered <- errOtherAsked
		default:
			next = append(next, t)
		}
	}
	r.transfers = next
}

// transferNext nominates for those whose turn has come.
func (r *run) transferNext() {
	if len(r.transfers) > 0 {
		r.step(elector.Transfer{})
	}
}

// endTransfers tells everybody who asked and was not answered that the leadership
// has ended, and why: a request outlives no leadership.
func (r *run) endTransfers(why error) {
	for _, t := range r.transfers {
		t.answered <- fmt.Errorf("%w any more: %w", ErrNotLeader, why)
	}
	r.transfers = nil
}

// nomination is one call of the backend's Nominate.
type nomination struct {
	number uint64
	to     string
	cancel context.CancelFunc
	ended  chan struct{}
}

// nominate asks the backend to choose. It may take as long as the other needs
// to warm up, up to a limit; the end of the leadership ends it, and so does the
// next nomination, which begins when this one has ended.
func (r *run) nominate(e elector.Nominate) {
	grant, limit := r.attempts[e.Attempt].grant, r.elector.options.WarmLimit
	ctx, cancel := context.WithTimeoutCause(r.term.ctx, limit, fmt.Errorf("not ready after %v", limit))
	before := r.nomination
	n := &nomination{number: e.Nomination, to: grant.Rival, cancel: cancel, ended: make(chan struct{})}
	if !e.Rival {
		n.to = r.transfers[0].to
	}
	r.nomination = n
	for _, t := range r.transfers {
		t.tried = t.tried || t.to == n.to
	}
	r.workers.Go(func() {
		defer close(n.ended)
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.ended
		}
		err := r.nominateOne(ctx, grant, n.to)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		r.report(report{event: elector.Nominated{Attempt: e.Attempt, Nomination: e.Nomination, Ready: err == nil}, err: err})
	})
}

var errOtherAsked = errors.New("another candidate was asked for at the same time")

func (r *run) nominateOne(ctx context.Context, grant Grant, to string) error {
	nominator, ok := r.elector.backend.(Nominator)
	if !ok {
		return errors.ErrUnsupported
	}
	if to == r.elector.options.ID {
		return fmt.Errorf("%w: %q is the leader itself", ErrNoCandidate, to)
	}
	return nominator.Nominate(ctx, grant, to)
}

// nominated tells what came of it, unless the leadership is over or another was
// nominated since.
func (r *run) nominated(e elector.Nominated, err error) {
	if r.term == nil || r.term.attempt != e.Attempt || r.nomination.number != e.Nomination {
		return
	}
	r.tell(Event{Kind: EventNominated, Attempt: e.Attempt, Err: err})
	r.answerTransfers(r.nomination.to, err)
}

// honour does what an operator has asked of this leadership, once.
func (r *run) honour(number uint64) {
	a := r.attempts[number]
	if a == nil || a.grant.Request == nil || !r.machine.Leads() {
		return
	}
	request := *a.grant.Request
	if request.Token != 0 && request.Token != a.grant.Token || a.honoured == request {
		return
	}
	a.honoured = request
	if request.Transfer == "" {
		r.step(elector.Resign{Attempt: number})
		return
	}
	r.receive(report{event: elector.Transfer{},
		transfer: &transfer{attempt: number, to: request.Transfer, answered: make(chan error, 1)}})
}
