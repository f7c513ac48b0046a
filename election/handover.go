package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/elector"
)

// transfer is one call of TransferTo, or a transfer that an operator has requested; for the
// latter no caller waits.
type transfer struct {
	attempt  uint64 // of the leadership to be handed over
	to       string
	tried    bool       // the candidate was nominated after this transfer was requested
	answered chan error // one error, nil once the nominee is ready
}

// transfer requests a hand-over and waits for the end of the leadership.
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

// await returns the answer. Before the loop ends, it answers every transfer that it has
// received; one without an answer reached it too late.
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

// answerTransfers answers the transfers to this candidate with the result of its
// nomination. After a failure, the other transfers are tried next; after a success, they
// are answered with errOtherAsked. A transfer to the same candidate that was requested
// during a failed nomination is tried again too, because the candidate may have become
// ready since.
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

// transferNext nominates the candidate of the next transfer, if there is one.
func (r *run) transferNext() {
	if len(r.transfers) > 0 {
		r.step(elector.Transfer{})
	}
}

// endTransfers answers the remaining transfers when the leadership has ended, with the
// reason: a request is not kept for a later leadership.
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

// nominate calls the backend's Nominate, which may take until the other candidate has
// warmed up, but no longer than WarmLimit. The end of the leadership cancels it, and so
// does the next nomination, which waits until this one has ended.
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

// nominated reports the result of a nomination, unless the leadership is over or there was
// a later nomination.
func (r *run) nominated(e elector.Nominated, err error) {
	if r.term == nil || r.term.attempt != e.Attempt || r.nomination.number != e.Nomination {
		return
	}
	r.tell(Event{Kind: EventNominated, Attempt: e.Attempt, Err: err})
	r.answerTransfers(r.nomination.to, err)
}

// honour carries out an operator's request to this leadership, once.
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
