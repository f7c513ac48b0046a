// Package watchhub lets many callers wait for changes that a single connection to a store
// reports.
//
// It takes a function that listens to the store, and ends the waits for what has changed.
// What always holds:
//
//	watchhub-N1  No change is missed: a waiter subscribes before it asks the
//	             store whether the change has already happened.
//	watchhub-N2  News are a hint and may be late. A wait may end without a change, or
//	             without news of one: the waiter then reads.
//	watchhub-N3  Without a connection, waits end after a pause: the caller polls.
//	watchhub-N4  One connection serves all waits. It is closed when nobody has
//	             waited for a while.
package watchhub

import (
	"context"
	"sync"
	"time"
)

// Listen connects to the store and calls live once. From then on it calls tell for every
// change, in the order of the store, with the name, the new version, and a function that
// returns news of the change for the waiters. The function is called only if somebody
// waits; a zero N means only that there was a change. Listen returns when the context ends
// or the connection breaks, and calls neither function afterwards.
type Listen[N any] func(ctx context.Context, live func(), tell func(name, version string, news func() N)) error

const (
	// idleMax is how long the connection is kept after the last wait.
	idleMax = 30 * time.Second
	// retryMin and retryMax bound the pause before another attempt to listen.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// namesMax bounds the names whose last version is remembered.
	namesMax = 10_000
)

// Hub passes the news of one connection to all waiters. Its methods may be called by
// several goroutines.
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

// told is the last reported version of a name, with its news.
type told[N any] struct {
	version string
	news    N
}

type waiter struct{ woken chan struct{} }

// New returns a hub that listens while somebody waits. pause is the time between polls
// while there is no connection.
func New[N any](listen Listen[N], pause time.Duration) *Hub[N] {
	return &Hub[N]{listen: listen, pause: pause, waiters: make(map[string]map[*waiter]struct{}),
		last: make(map[string]told[N])}
}

// Close ends the connection. Waits continue as polls.
func (h *Hub[N]) Close() {
	h.mu.Lock()
	h.closed = true
	ended := h.end()
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Wait returns when the named thing may have another version than the given one, with the
// news of it if there are any, or after the limit without news. now returns the current
// version in the store.
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
			if last, known := h.told(name); !known || last.version != version { // else the caller already has that version
				return last.news, nil
			}
		case <-timer.C:
			return none, nil
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// told returns the last report about a name; false if none is known.
func (h *Hub[N]) told(name string) (last told[N], known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known = h.last[name]
	return last, known
}

// join subscribes, and reports whether the connection is live.
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

// rest ends the connection unless somebody waits again.
func (h *Hub[N]) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == 0 {
		h.end()
	}
}

// end tells the listener to end. The returned channel is closed when it has ended; it is
// nil without a listener. The caller holds the mutex.
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
		_ = h.listen(ctx, func() { h.alive(ctx) }, tell) // waiters poll after an error
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

// alive wakes all waiters, because changes before this moment were not reported.
func (h *Hub[N]) alive(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.live = true
		h.wakeAll()
	}
}

// dead turns all waits into polls. The caller holds the mutex.
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

// tell passes a change on, unless it comes from a connection that was closed. The next
// connection may be live by then, and a waiter that already has a later version would take
// the old change for a new one.
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
