package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// Nominate chooses the first in line with this id, and returns when it is
// ready. Release then hands the key over to it. Candidates of "consul lock"
// cannot be seen, and so not be chosen.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s := b.seat(grant.Claim.Nonce)
	err := fmt.Errorf("%w: it was released", election.ErrLost)
	if s != nil && s.isGranted() {
		err = b.nominate(ctx, s, id)
	}
	if err != nil {
		return fmt.Errorf("consul: nominate %q in election %q: %w", id, grant.Claim.Election, mark(err))
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, s *seat, id string) error {
	s.mu.Lock()
	s.rounds++
	round := fmt.Sprintf("%d.%d", s.token, s.rounds)
	s.mu.Unlock()
	key, err := b.choose(ctx, s, id, round)
	if err != nil {
		return err
	}
	for {
		chosen, now, err := b.nominee(ctx, s, key, round)
		if err != nil {
			return err
		}
		if chosen.State == stateReady {
			s.mu.Lock()
			s.nominee = &chosen
			s.mu.Unlock()
			return nil
		}
		b.await(ctx, readinessPause, watched{key, chosen.modified}, watched{s.lock, now.lock.ModifyIndex})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// readinessPause is how long the holder waits without a sign before it looks
// anyway.
const readinessPause = time.Second

// choose writes the nomination into the candidate's ticket and touches the one
// before it, for which the candidate waits.
func (b *Backend) choose(ctx context.Context, s *seat, id, round string) (key string, err error) {
	for {
		now, err := b.scene(ctx, s)
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(now.line, func(t ticket) bool { return t.ID == id })
		if at < 0 {
			return "", election.ErrNoCandidate
		}
		chosen := now.line[at]
		chosen.Round, chosen.State, chosen.Error = round, "", ""
		ops := []*api.KVTxnOp{s.mine(), chosen.change()}
		if at > 0 {
			ops = append(ops, now.line[at-1].change())
		}
		_, failed, err := b.transact(ctx, ops...)
		switch {
		case err != nil:
			return "", err
		case failed == 0:
			return "", errNotHeld
		case failed < 0:
			return chosen.key, nil
		}
	}
}

// nominee reads the ticket of the nominee, and why it never will be ready.
func (b *Backend) nominee(ctx context.Context, s *seat, key, round string) (ticket, scene, error) {
	now, err := b.scene(ctx, s)
	if err != nil {
		return ticket{}, now, err
	}
	at := slices.IndexFunc(now.line, func(t ticket) bool { return t.key == key })
	switch {
	case now.lock.Session != s.sessionID():
		return ticket{}, now, errNotHeld
	case at < 0:
		return ticket{}, now, fmt.Errorf("%w any more", election.ErrNoCandidate)
	case now.line[at].Round != round:
		return ticket{}, now, errors.New("another candidate was chosen meanwhile")
	case now.line[at].State == stateFailed:
		return ticket{}, now, fmt.Errorf("it could not get ready: %s", now.line[at].Error)
	}
	return now.line[at], now, nil
}

// warming is the warm-up of a candidate that was nominated.
type warming struct {
	round  string // of the nomination that is heeded
	warm   bool   // the function has returned nil; belongs to the latest warm-up that has begun
	cancel context.CancelFunc
	done   chan struct{}
}

// warm heeds a nomination of this candidate, in a goroutine of its own. One that
// was warmed up is ready; one that could not warm up, or was told to end before,
// is asked anew. Its function never runs twice at once.
func (w *waiter) warm(ctx context.Context, own ticket) {
	if own.Round == "" || own.State != "" || own.Round == w.warming.round {
		return
	}
	w.warming.stop()
	ctx, cancel := context.WithCancel(ctx)
	before, done := w.warming.done, make(chan struct{})
	w.warming.round, w.warming.cancel, w.warming.done = own.Round, cancel, done
	w.backend.group.Go(func() {
		defer close(done)
		defer cancel()
		if before != nil {
			<-before
		}
		state, why := stateReady, ""
		if err := w.warming.warmUp(ctx, w.seat.claim.Warm); err != nil {
			state, why = stateFailed, err.Error()
		}
		w.backend.answer(ctx, w.seat, own.Round, state, why)
	})
}

// warmUp calls the function until it has succeeded once. Warm-ups come one after
// another.
func (w *warming) warmUp(ctx context.Context, function func(context.Context) error) error {
	if w.warm || function == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	err := function(ctx)
	w.warm = err == nil
	return err
}

// answer tells the holder what came of its nomination, unless there is another
// one by now.
func (b *Backend) answer(ctx context.Context, s *seat, round, state, why string) {
	for ctx.Err() == nil {
		now, err := b.scene(ctx, s)
		if err == nil {
			if now.at < 0 || now.line[now.at].Round != round {
				return
			}
			own := now.line[now.at]
			own.State, own.Error = state, why
			var failed int
			if _, failed, err = b.transact(ctx, own.change()); err == nil && failed < 0 {
				return
			}
		}
		if err != nil {
			sleep(ctx, retryPause)
		}
	}
}

// stop tells the warm-up to end.
func (w *warming) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// finish tells the warm-up to end and waits for it, but not for ever: it is not
// ours.
func (w *warming) finish(limit time.Duration) {
	if w.cancel == nil {
		return
	}
	w.cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}
