package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/invariant"
)

// call is an operation in progress: it carries what the operation wants to the store and back.
type call struct {
	b     *Backend
	op    claims.Op
	name  string
	lease time.Duration
	// warm makes a candidate ready, and warmed is closed when it has ended.
	warm   func()
	warmed chan struct{}
}

// run returns when the operation is done, or its context has ended. If the outcome of a request
// is unknown, the error is the store's.
func (c *call) run(ctx context.Context) (claims.Want, error) {
	want := c.step(c.op.Begin)
	var failed error
	for want.Kind != claims.Done {
		answer, err := c.ask(ctx, want)
		if answer.Kind == claims.Shown && ctx.Err() != nil {
			return want, context.Cause(ctx)
		}
		if err != nil {
			failed = err
		}
		asked := want.Kind
		want = c.step(func(now clock.Instant) claims.Want { return c.op.Answer(now, answer) })
		switch {
		case want.Kind == claims.Done:
		case ctx.Err() != nil:
			return want, cmp.Or(err, context.Cause(ctx))
		case asked != claims.Wait && errors.Is(err, election.ErrPermanent):
			return want, err
		case want.Warm:
			c.warmed = make(chan struct{})
			go c.warmUp(c.warmed)
		}
	}
	if want.Err == claims.ErrUnanswered {
		return want, failed
	}
	return want, want.Err
}

func (c *call) warmUp(warmed chan struct{}) {
	c.warm()
	close(warmed)
}

// step advances the operation. Operations of a backend take turns.
func (c *call) step(move func(now clock.Instant) claims.Want) claims.Want {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return move(c.b.now())
}

// ask asks the store for one want.
func (c *call) ask(ctx context.Context, want claims.Want) (claims.Answer, error) {
	switch want.Kind {
	case claims.Read:
		return c.b.read(ctx, c.name, c.lease)
	case claims.Write:
		var after string
		err := c.b.bounded(ctx, c.b.limit(c.lease), func(ctx context.Context) (err error) {
			after, err = c.b.store.Write(ctx, c.name, want.Record, want.Version)
			return err
		})
		return written(after, err), err
	case claims.Wait:
		return c.wait(ctx, want)
	}
	c.b.sleep(ctx, want.Until)
	return claims.Answer{Kind: claims.Woken}, nil
}

// written turns the result of a write into an answer.
func written(version string, err error) claims.Answer {
	var notYet *NotYetError
	switch {
	case err == nil:
		return claims.Answer{Kind: claims.Written, Version: version}
	case errors.Is(err, ErrConflict):
		return claims.Answer{Kind: claims.Conflict}
	case errors.As(err, &notYet):
		return claims.Answer{Kind: claims.NotYet, After: notYet.After}
	}
	return claims.Answer{}
}

// wait waits for a change. The end of a warm-up ends it too.
func (c *call) wait(ctx context.Context, want claims.Want) (claims.Answer, error) {
	limit := want.Until.Sub(c.b.now())
	if limit <= 0 {
		return claims.Answer{Kind: claims.Woken}, nil
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	warmed := c.warmed
	if warmed != nil {
		go func() {
			select {
			case <-warmed:
				cancel()
			case <-within.Done():
			}
		}()
	}
	news, err := c.b.await(within, c.name, want.Version, limit, c.lease)
	select {
	case <-warmed:
		c.warmed = nil
		return claims.Answer{Kind: claims.Woken}, nil
	default:
	}
	switch {
	case err != nil:
		return claims.Answer{}, err
	case news.Version != "":
		return claims.Answer{Kind: claims.Told, Record: news.Record, Version: news.Version}, nil
	}
	return claims.Answer{Kind: claims.Woken}, nil
}

// sleep sleeps until an instant, or until Close.
func (b *Backend) sleep(ctx context.Context, until clock.Instant) {
	timer := b.options.Clock.Timer(until)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	case <-b.life.Done():
	}
}

// limit returns how long one request to the store may take for a claim of this lease: as long
// as the Elector lets a renewal take, within bounds. A connection that died silently must not
// keep a candidate from trying another one.
func (b *Backend) limit(lease time.Duration) time.Duration {
	return min(max(lease/4, requestMin), requestMax)
}

const (
	requestMin = 500 * time.Millisecond
	requestMax = 10 * time.Second
)

// errNoAnswer is the error of a request that has taken too long.
var errNoAnswer = errors.New("no answer")

var errClosed = election.Permanent(election.ErrClosed)

// bounded makes one request to the store with a time limit. Every request of this package goes
// through it.
func (b *Backend) bounded(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	_, limited := within.Deadline()
	invariant.Check(limited && limit > 0, "record-R8: a request without a time limit")
	if b.life.Err() != nil {
		return errClosed
	}
	err := request(within)
	switch {
	case err == nil:
		return nil
	case b.life.Err() != nil:
		return fmt.Errorf("%w: %w", errClosed, err)
	case within.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w within %v: %w", errNoAnswer, limit, err)
	}
	return err
}

// await waits for a change of the record, but no longer than the limit. A record without
// remaining tokens is not returned: Read reports that as an error.
func (b *Backend) await(ctx context.Context, name, version string, limit, lease time.Duration) (news News, err error) {
	err = b.bounded(ctx, limit+b.limit(lease), func(ctx context.Context) (err error) {
		if teller, ok := b.store.(Teller); ok {
			news, err = teller.WaitTold(ctx, name, version, limit)
			return err
		}
		return b.store.Wait(ctx, name, version, limit)
	})
	if err != nil || news.Record.Token >= claims.TokenMax {
		news = News{}
	}
	return news, err
}

// read reads the record for a claim of this lease.
func (b *Backend) read(ctx context.Context, name string, lease time.Duration) (claims.Answer, error) {
	answer := claims.Answer{Kind: claims.Shown}
	err := b.bounded(ctx, b.limit(lease), func(ctx context.Context) (err error) {
		answer.Record, answer.Version, err = b.store.Read(ctx, name)
		return err
	})
	if err == nil && answer.Record.Token >= claims.TokenMax {
		err = election.Permanent(fmt.Errorf("its record has the token %d, after which none is left; repair the record", answer.Record.Token))
	}
	if err != nil {
		return claims.Answer{}, err
	}
	answer.Wall = b.wall()
	if store, ok := b.store.(Incarnated); ok {
		answer.Incarnation = store.Incarnation()
	}
	return answer, nil
}
