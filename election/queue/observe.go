package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/internal/tenures"
)

const (
	// observeGather is how long an observer waits for further changes, so that a hand-over
	// appears as one change.
	observeGather = 2 * time.Millisecond
	// observePause is the pause after a failure.
	observePause = 500 * time.Millisecond
)

// Observe yields the queue whenever it has changed, until ctx ends or Close is called.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		life, end := context.WithCancel(ctx)
		defer end() // the caller may leave the loop early, and ctx may last as long as the program
		defer context.AfterFunc(b.life, end)()
		observer := b.store.Observe(life, name)
		last, first, failed := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			view := last
			sight, err := observer.Look(life, false)
			if ctx.Err() != nil {
				return
			}
			if b.life.Err() != nil {
				err = errClosed
			}
			if err == nil {
				view = sight.view(name)
			} else {
				err = b.fail("observe", name, err)
			}
			closed := errors.Is(err, election.ErrClosed)
			if (first || failed != (err != nil) || closed || !view.Equal(last)) && !yield(view, err) || closed {
				return
			}
			last, first, failed = view, false, err != nil
			if err != nil || observer.Wait(life) != nil {
				sleep(life, observePause)
				continue
			}
			sleep(life, observeGather)
		}
	}
}

// Elections returns the names of all elections that the store knows.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	names, err := b.store.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: list elections: %w", b.store.Traits().Name, b.store.Mark(err))
	}
	slices.Sort(names)
	return names, nil
}

// read returns an election as it is now.
func (b *Backend) read(ctx context.Context, name string) (Sight, error) {
	life, end := context.WithCancel(ctx)
	defer end()
	return b.store.Observe(life, name).Look(ctx, true)
}

// History returns the latest leaderships of candidates of this package.
func (b *Backend) History(ctx context.Context, name string) ([]election.Tenure, error) {
	sight, err := b.read(ctx, name)
	if err != nil {
		return nil, b.fail("read the history of", name, err)
	}
	return election.OneByOne(tenures.Expire(sight.History, sight.Holder.Token, wall())), nil
}

// Ask leaves a request for the leader.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	request = request.WithID()
	for {
		sight, err := b.read(ctx, name)
		var asked election.Request
		if err == nil {
			asked, err = sight.accepts(request)
		}
		if err == nil {
			err = b.store.Ask(ctx, name, sight.Holder, asked)
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrConflict):
			return b.fail("ask the leader of", name, err)
		}
		if Pause(ctx); ctx.Err() != nil { // the election may change again and again
			return b.fail("ask the leader of", name, context.Cause(ctx))
		}
	}
}
