package bubble

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrLink is the error of a call whose request or answer was lost.
var ErrLink = errors.New("the request or its answer was lost")

// Link connects one program to a store in memory. Calls may arrive late, even after the caller
// has given up, and calls or their answers may be lost.
type Link struct {
	// Late is the most that a call or an answer takes, one in fifty; Lost is how many calls lose
	// one of themselves and their answer.
	Late time.Duration
	Lost int
	// Quiet, if not nil, reports whether the link is as it should be for a while.
	Quiet func() bool

	mu       sync.Mutex
	rng      *rand.Rand
	cut      time.Time // until when nothing passes
	slow     time.Time // until when answers take a tenth of Late and more
	requests int
}

// NewLink returns a link on which a seed decides.
func NewLink(seed uint64, late time.Duration) *Link {
	return &Link{Late: late, Lost: 20, rng: rand.New(rand.NewPCG(seed, 4))}
}

// Cut has nothing pass for a while.
func (l *Link) Cut(lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = time.Now().Add(lasts)
}

// Slow has all answers come late for a while.
func (l *Link) Slow(lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = time.Now().Add(lasts)
}

// Heal ends that.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.slow = time.Time{}, time.Time{}
}

// Requests is how many calls there were.
func (l *Link) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// fate is what becomes of one call.
func (l *Link) fate() (there, back time.Duration, lost, unanswered bool) {
	quiet := l.Quiet != nil && l.Quiet()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	now := time.Now()
	delay := func() time.Duration {
		switch pick := l.rng.IntN(100); {
		case quiet || pick < 90:
			return time.Duration(l.rng.IntN(2000)) * time.Microsecond
		case pick < 98:
			return time.Duration(l.rng.Int64N(int64(l.Late / 8)))
		}
		return time.Duration(l.rng.Int64N(int64(l.Late)))
	}
	there, back = delay(), delay()
	if now.Before(l.slow) {
		there, back = 0, l.Late/16+time.Duration(l.rng.Int64N(int64(l.Late/16)))
	}
	if quiet {
		return there, back, false, false
	}
	fate := l.rng.IntN(2 * l.Lost)
	return there, back, now.Before(l.cut) || fate == 0, fate == 1
}

// Pass makes a call. The call takes effect after a while, once or not at all, even if the
// caller has given up. A loss is reported after the time in which the answer would have come,
// or never.
func (l *Link) Pass(ctx context.Context, call func()) error {
	there, back, lost, unanswered := l.fate()
	done := make(chan struct{})
	go func() {
		time.Sleep(there)
		if !lost {
			call()
		}
		time.Sleep(back)
		if !(lost || unanswered) || l.chance(2) {
			close(done)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if lost || unanswered {
		return ErrLink
	}
	return nil
}

// Watch makes a call that waits. Its result may come late or never, or the watch may be
// lost, which may be reported or not.
func (l *Link) Watch(ctx context.Context, wait func(context.Context) error) error {
	there, back, lost, unanswered := l.fate()
	if lost && l.chance(2) {
		sleep(ctx, there)
		return ErrLink
	}
	err := wait(ctx)
	if unanswered {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	sleep(ctx, back)
	return err
}

func (l *Link) chance(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n) == 0
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
