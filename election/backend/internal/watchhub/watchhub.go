// Package watchhub lets many wait for changes that one connection to a store
// reports.
//
// In goes a function that listens, out come the ends of waits. What always
// holds:
//
//	watchhub-N1  Nothing is missed: a waiter has subscribed before it asks the
//	             store whether the change has come already.
//	watchhub-N2  News are a hint. A wait may end without a change; a waiter that trusts it
//	             reads.
//	watchhub-N3  Without a connection waits end after a pause: the caller polls.
//	watchhub-N4  One connection serves all waits, and is closed when nobody has
//	             waited for a while.
package watchhub

import (
	"context"
	"sync"
	"time"
)

// Listen connects to the store and calls live once: from then on every change
// is told, by its name and the version that it brought. It returns when the
// context ends or the connection breaks, and calls neither afterwards.
type Listen func(ctx context.Context, live func(), tell func(name, version string)) error

const (
	// idleMax is for how long the connection is kept after the last wait.
	idleMax = 30 * time.Second
	// retryMin and retryMax are the pauses before another attempt to listen.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// namesMax is of how many names the last version is remembered.
	namesMax = 10_000
)

// Hub hands the news of one connection to all who wait. Its methods may be
// called by several goroutines.
type Hub struct {
	listen Listen
	pause  time.Duration

	mu      sync.Mutex
	waiters map[string]map[*waiter]struct{}
	waiting int
	idle    *time.Timer        // set while nobody waits
	stop    context.CancelFunc // nil while nobody listens
	ended   chan struct{}      // closed when the listener has ended
	live    bool
	closed  bool
	last    map[string]string // versions told last, while live
}

type waiter struct{ woken chan struct{} }

// New returns a hub that listens when somebody waits. Pause is the pause
// between polls while there is no connection.
func New(listen Listen, pause time.Duration) *Hub {
	return &Hub{listen: listen, pause: pause, waiters: make(map[string]map[*waiter]struct{}),
		last: make(map[string]string)}
}

// Close ends the connection. Waits go on as polls.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	ended := h.end()
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Wait returns nil once the named thing may have another version than the one
// given, or after the limit. Now returns the version that the store has.
func (h *Hub) Wait(ctx context.Context, name, version string, limit time.Duration,
	now func(context.Context) (string, error)) error {
	w, live, told := h.join(name)
	defer h.leave(name, w)
	switch {
	case !live:
		limit = min(limit, h.pause)
	case told != version:
		if current, err := now(ctx); err != nil || current != version {
			return err
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.woken:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join subscribes, and reports whether news come and which version came last.
func (h *Hub) join(name string) (w *waiter, live bool, told string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w = &waiter{woken: make(chan struct{}, 1)}
	if h.waiters[name] == nil {
		h.waiters[name] = make(map[*waiter]struct{})
	}
	h.waiters[name][w] = struct{}{}
	h.waiting++
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	if h.stop == nil && !h.closed {
		ctx, stop := context.WithCancel(context.Background())
		h.stop, h.ended = stop, make(chan struct{})
		go h.run(ctx, h.ended)
	}
	return w, h.live, h.last[name]
}

func (h *Hub) leave(name string, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters[name], w)
	if len(h.waiters[name]) == 0 {
		delete(h.waiters, name)
	}
	h.waiting--
	if h.waiting == 0 && !h.closed {
		h.idle = time.AfterFunc(idleMax, h.rest)
	}
}

// rest ends the connection if still nobody waits.
func (h *Hub) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == 0 {
		h.end()
	}
}

// end tells the listener to end; the caller holds the mutex. What is returned
// is closed when it has, nil if there is none.
func (h *Hub) end() <-chan struct{} {
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	if h.stop == nil {
		return nil
	}
	h.stop()
	h.stop = nil
	h.dead()
	return h.ended
}

// run listens until it is told to end.
func (h *Hub) run(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		began := time.Now()
		tell := func(name, version string) { h.tell(ctx, name, version) }
		_ = h.listen(ctx, func() { h.alive(ctx) }, tell) // waiters poll meanwhile
		if time.Since(began) > retryMax {
			pause = retryMin
		}
		h.mu.Lock()
		if ctx.Err() == nil {
			h.dead()
		}
		h.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// alive wakes everybody: what came before was not told.
func (h *Hub) alive(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.live = true
		h.wakeAll()
	}
}

// dead makes waits polls again. The caller holds the mutex.
func (h *Hub) dead() {
	h.live = false
	clear(h.last)
	h.wakeAll()
}

func (h *Hub) wakeAll() {
	for _, waiters := range h.waiters {
		wake(waiters)
	}
}

// tell passes a change on, unless it comes from a connection that was closed:
// the next one may be live by then, and a waiter that has that version would take an old
// change for the last.
func (h *Hub) tell(ctx context.Context, name, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.live || ctx.Err() != nil {
		return
	}
	if len(h.last) >= namesMax {
		clear(h.last)
	}
	h.last[name] = version
	wake(h.waiters[name])
}

func wake(waiters map[*waiter]struct{}) {
	for w := range waiters {
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}
