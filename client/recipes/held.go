package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// Held is an acquired lock. Its methods may be called by several goroutines at once.
//
// While it is held, the client has the servers prove its session six times in a
// session timeout, by a transaction that all locks of one client share.
type Held struct {
	place   *place
	ctx     context.Context // ends with release, and with the session
	release context.CancelFunc
	leaving sync.Once
	lost    chan struct{}

	mu       sync.Mutex
	until    clock.Instant
	over     bool // released or lost
	released bool
	moved    chan struct{} // capacity 1: until may have changed
}

const (
	// proofs is how often the session is proved within a session timeout.
	proofs = 6
	// driftPart is the part of the timeout (one in 20) that is kept as a margin before the
	// deadline, for clocks that differ in rate.
	driftPart = 20
)

// hold proves the session of a contender whose turn has come, and watches over the lock
// from then on.
func hold(ctx context.Context, p *place) (*Held, error) {
	h := &Held{place: p, lost: make(chan struct{}), moved: make(chan struct{}, 1)}
	// A lost connection does not lose the lock, so retry for ever, whatever RetryFor the
	// program has set.
	h.ctx, h.release = context.WithCancel(client.WithRetryFor(context.Background(), 0))
	states := p.c.Subscribe() // subscribed before the proof, so no later change is missed
	context.AfterFunc(h.ctx, states.Close)
	if err := h.prove(ctx); err != nil {
		h.release()
		return nil, err
	}
	for _, work := range []func(){h.watch, h.keepProven, h.keepDeadline, func() { h.follow(states) }} {
		if !p.c.Go(func(session context.Context) {
			defer context.AfterFunc(session, h.release)()
			work()
		}) {
			h.release()
			return nil, cmp.Or(p.c.Err(), error(zk.ErrClosing))
		}
	}
	return h, nil
}

// Token returns the zxid with which the holder's znode was created. It is higher for each later
// contender, so a resource that remembers the highest it has seen can refuse a holder that has
// lost the lock and does not know it.
func (h *Held) Token() zk.Zxid { return h.place.stat.Czxid }

// Path returns the path of the holder's znode.
func (h *Held) Path() string { return h.place.path }

// Lost is closed when the lock may belong to somebody else although it was not released: the
// session has ended, the znode was deleted, or ProvenUntil has passed because no server can prove
// the session any more. If this process runs at that time, it is closed before anybody else can
// acquire the lock because of the session. A process that may be stopped should check
// ProvenUntil, or have the resource check the Token. If the znode was deleted by hand, Lost is
// closed only when the client learns of it. A lost lock need not be released.
func (h *Held) Lost() <-chan struct{} { return h.lost }

// ErrLost is the cause of a context that ended with its lock.
var ErrLost = errors.New("recipes: the lock is lost")

// Context returns a context for work under the lock. It ends with the parent, with Release, and
// when Lost is closed; then its cause (context.Cause) matches ErrLost. Call cancel when the work
// is done.
func (h *Held) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.ctx, func() { end(h.cause()) })
	return ctx, func() { stop(); end(nil) }
}

// cause returns why h.ctx has ended.
func (h *Held) cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return context.Canceled
	}
	return fmt.Errorf("%w: %s", ErrLost, h.place.path)
}

// Op returns the check that a multi must contain to be refused if the lock is no longer held, for
// callers that build their own multi. It fails with zk.ErrNoNode.
func (h *Held) Op() client.Operation { return client.CheckOp(h.place.path, -1) }

// Multi applies all operations or none, as Client.Multi does, and only while the servers have the
// znode of the holder. So a client that was stopped and has lost the lock changes nothing after
// the next holder has come: it gets an error that matches ErrLost, and nothing was done. The
// results are those of ops. In an error the check of the lock counts as operation 1.
func (h *Held) Multi(ctx context.Context, ops ...client.Operation) ([]zk.Result, error) {
	results, err := h.place.c.Multi(ctx, append([]client.Operation{h.Op()}, ops...)...)
	if len(results) > 0 {
		if results[0].Code == zk.ErrNoNode {
			return nil, fmt.Errorf("%w: %s", ErrLost, h.place.path)
		}
		results = results[1:]
	}
	return results, err
}

// ProvenUntil returns until when nobody else can acquire the lock, unless it is released or its
// znode deleted by hand: a twentieth of the session timeout before client.ProvenUntil. It moves
// back if servers grant a shorter timeout. Compare it with the client's clock (Client.Clock),
// which is clock.Now unless client.Options says otherwise.
func (h *Held) ProvenUntil() clock.Instant {
	session, _ := h.place.c.ProvenUntil()
	margin := h.place.c.Timeout() / driftPart
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(h.until, session.Add(-margin))
}

// Release releases the lock. An error says why the release is not known to be done: ctx has
// ended, or the servers refuse writes. It is then retried in the background until it is done, for
// as long as the session lives.
func (h *Held) Release(ctx context.Context) error {
	var err error
	h.leaving.Do(func() {
		h.end(false)
		if err = remove(ctx, h.place.c, h.place.path); err != nil {
			h.place.leave()
		}
	})
	return err
}

// end ends the lock, once. If the lock is lost but the session lives on, the znode is
// removed, because it would keep others out for nothing.
func (h *Held) end(lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.over, h.released = true, !lost
	if lost {
		close(h.lost)
		h.place.leave()
	}
	h.release()
}

// watch ends the lock when the znode is gone, or when the session has ended and the znode
// can no longer be watched.
func (h *Held) watch() {
	for {
		_, found, w, err := h.place.c.ExistsW(h.ctx, h.place.path)
		if err != nil {
			h.end(true)
			return
		}
		if !found {
			w.Close() // the znode cannot come back
			h.end(true)
			return
		}
		select {
		case <-w.Events():
		case <-h.ctx.Done():
			w.Close()
		}
	}
}

// keepProven proves the session again and again. Nothing waits for a proof that does not
// arrive.
func (h *Held) keepProven() {
	for pause(h.ctx, h.place.c, h.place.c.Timeout()/proofs) {
		_ = h.prove(h.ctx) // after an error the deadline stays as it is
	}
}

func (h *Held) prove(ctx context.Context) error {
	timeout := h.place.c.Timeout()
	until, err := h.place.c.Prove(ctx, timeout/proofs/2)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = max(h.until, until.Add(-timeout/driftPart))
	h.tellMoved()
	return nil
}

// tellMoved makes keepDeadline read the deadline again.
func (h *Held) tellMoved() {
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// follow checks the deadline at each change of the connection, because a server may have
// granted a shorter timeout.
func (h *Held) follow(states *client.Subscription) {
	for range states.Events() {
		h.tellMoved()
	}
}

// keepDeadline ends the lock when its deadline has passed, even if everything else is
// blocked.
func (h *Held) keepDeadline() {
	for {
		until := h.ProvenUntil()
		timer := h.place.c.Clock().Timer(until)
		select {
		case <-timer.C():
			if h.ProvenUntil() <= until {
				h.end(true)
				return
			}
		case <-h.moved:
		case <-h.ctx.Done():
			timer.Stop()
			h.end(true) // the session has ended, unless release was called
			return
		}
		timer.Stop()
	}
}
