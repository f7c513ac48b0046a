// Package watchhub lets many wait for changes that one connection to a store
// reports.
//
// In goes a function that listens, out come the ends of waits. What always
// holds:
//
//	watchhub-N1  Nothing is missed: a waiter has subscribed before it asks the
//	             store whether the change has come already.
//	watchhub-N2  News are a hint, and may be late. A wait may end without a change, and
//	             without what has come of it: then the waiter reads.
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
// is told in the order of the store, by its name, the version that it brought, and
// news of it for those who wait, made only if somebody does: the zero N says no more
// than that there was a change. It returns when the context ends or the connection
// breaks, and calls neither afterwards.
type Listen[N any] func(ctx context.Context, live func(), tell func(name, version string, news func() N)) error

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
type Hub[N any] struct {
	listen Listen[N]
	pause  time.Duration

	mu      sync.Mutex
	waiters map[string]map[*waiter]struct{}
	waiting int
	idle    *time.Timer        // set while nobody waits
	stop    context.CancelFunc // nil while nobody listens
	ended   chan struct{}      // closed when the listener has ended
	live    bool
	closed  bool
	last    map[string]told[N] // by name, while live
}

// told is a version that was told, with its news.
type told[N any] struct {
	version string
	news    N
}

type waiter struct{ woken chan struct{} }

// New returns a hub that listens when somebody waits. Pause is the pause
// between polls while there is no connection.
func New[N any](listen Listen[N], pause time.Duration) *Hub[N] {
	return &Hub[N]{listen: listen, pause: pause, waiters: make(map[string]map[*waiter]struct{}),
		last: make(map[string]told[N])}
}

// Close ends the connection. Waits go on as polls.
func (h *Hub[N]) Close() {
	h.mu.Lock()
	h.closed = true
	ended := h.end()
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Wait returns once the named thing may have another version than the one given, with
// the news of that if there are any; or after the limit, with none. Now returns the version that the store has.
func (h *Hub[N]) Wait(ctx context.Context, name, version string, limit time.Duration,
	now func(context.Context) (string, error)) (none N, err error) {
	w, live := h.join(name)
	defer h.leave(name, w)
	if !live {
		limit = min(limit, h.pause)
	} else if last, known := h.told(name); !known || last.version != version {
		if current, err := now(ctx); err != nil || current != version {
			return none, err
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-w.woken:
			if last, known := h.told(name); !known || last.version != version { // else it has that
				return last.news, nil
			}
		case <-timer.C:
			return none, nil
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// told is what came last of a name, and false if nothing is known to be the last.
func (h *Hub[N]) told(name string) (last told[N], known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known = h.last[name]
	return last, known
}

// join subscribes, and reports whether news come.
func (h *Hub[N]) join(name string) (w *waiter, live bool) {
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
	return w, h.live
}

func (h *Hub[N]) leave(name string, w *waiter) {
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
func (h *Hub[N]) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == 0 {
		h.end()
	}
}

// end tells the listener to end; the caller holds the mutex. What is returned
// is closed when it has, nil if there is none.
func (h *Hub[N]) end() <-chan struct{} {
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
func (h *Hub[N]) run(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		began := time.Now()
		tell := func(name, version string, news func() N) { h.tell(ctx, name, version, news) }
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
func (h *Hub[N]) alive(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.live = true
		h.wakeAll()
	}
}

// dead makes waits polls again. The caller holds the mutex.
func (h *Hub[N]) dead() {
	h.live = false
	clear(h.last)
	h.wakeAll()
}

func (h *Hub[N]) wakeAll() {
	for _, waiters := range h.waiters {
		wake(waiters)
	}
}

// tell passes a change on, unless it comes from a connection that was closed:
// the next one may be live by then, and a waiter that has that version would take an old
// change for the last.
func (h *Hub[N]) tell(ctx context.Context, name, version string, news func() N) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.live || ctx.Err() != nil {
		return
	}
	if len(h.last) >= namesMax {
		clear(h.last)
	}
	last := told[N]{version: version}
	if len(h.waiters[name]) > 0 {
		last.news = news()
	}
	h.last[name] = last
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
