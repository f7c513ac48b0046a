package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/client"
)

// The kinds of contenders, as Curator names them.
const (
	lockKind  = "lock-"
	readKind  = "__READ__"
	writeKind = "__WRIT__"
)

// ErrLocked is the error of TryAcquire if others hold the lock or wait for it.
var ErrLocked = errors.New("recipes: the lock is taken")

// Lock is held by one contender at a time, in order of arrival.
type Lock struct{ line line }

// NewLock returns the lock of a directory, which is created when it is needed.
func NewLock(c *client.Client, dir string, o Options) *Lock { return &Lock{line{c, dir, o}} }

// Acquire waits for the lock. Every call is a contender of its own, even on the same Lock.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) {
	return l.line.acquire(ctx, lockKind, behindAnybody)
}

// TryAcquire takes the lock if nobody holds it or waits for it, and otherwise returns ErrLocked
// at once. It writes to the servers either way, because only their order decides, not what was
// read.
func (l *Lock) TryAcquire(ctx context.Context) (*Held, error) {
	return l.line.tryAcquire(ctx, lockKind, behindAnybody)
}

// RWLock is held by one writer or by any number of readers, in order of arrival: a reader waits
// for the writers before it, a writer for everybody before it.
type RWLock struct{ line line }

// NewRWLock returns the lock of a directory, which is created when it is needed.
func NewRWLock(c *client.Client, dir string, o Options) *RWLock { return &RWLock{line{c, dir, o}} }

// AcquireRead waits for a reader's share of the lock.
func (l *RWLock) AcquireRead(ctx context.Context) (*Held, error) {
	return l.line.acquire(ctx, readKind, behindWriter)
}

// TryAcquireRead is AcquireRead, but returns ErrLocked at once instead of waiting.
func (l *RWLock) TryAcquireRead(ctx context.Context) (*Held, error) {
	return l.line.tryAcquire(ctx, readKind, behindWriter)
}

// TryAcquireWrite is AcquireWrite, but returns ErrLocked at once instead of waiting.
func (l *RWLock) TryAcquireWrite(ctx context.Context) (*Held, error) {
	return l.line.tryAcquire(ctx, writeKind, behindAnybody)
}

// AcquireWrite waits for the whole lock.
func (l *RWLock) AcquireWrite(ctx context.Context) (*Held, error) {
	return l.line.acquire(ctx, writeKind, behindAnybody)
}

func behindAnybody(before []member) int { return len(before) - 1 }

func behindWriter(before []member) int {
	for i := len(before) - 1; i >= 0; i-- {
		if before[i].kind == writeKind {
			return i
		}
	}
	return -1
}

func (l line) acquire(ctx context.Context, kind string, blocks func([]member) int) (*Held, error) {
	p, err := l.join(ctx, kind)
	if err != nil {
		return nil, err
	}
	return p.hold(ctx, p.await(ctx, blocks))
}

func (l line) tryAcquire(ctx context.Context, kind string, blocks func([]member) int) (*Held, error) {
	p, err := l.join(ctx, kind)
	if err != nil {
		return nil, err
	}
	before, err := p.before(ctx)
	if err != nil || blocks(before) < 0 {
		return p.hold(ctx, err)
	}
	// It must be gone before this returns: the next attempt must not find it.
	if remove(ctx, p.c, p.path) != nil {
		p.leave()
	}
	return nil, fmt.Errorf("%w: %s", ErrLocked, p.dir)
}

// hold makes the place that of a holder, unless there is an error: then it gives up the
// place.
func (p *place) hold(ctx context.Context, err error) (*Held, error) {
	if err != nil {
		p.leave()
		return nil, err
	}
	h, err := hold(ctx, p)
	if err != nil {
		p.leave()
	}
	return h, err
}
