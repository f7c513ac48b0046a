package file

import (
	"strings"
	"sync"
	"time"
)

// How long a waiter waits without a notice before it looks anyway: with notices of the
// kernel, and without.
const (
	patienceWatching = time.Second
	patienceBlind    = 100 * time.Millisecond
)

// hub shares one watch of some directories among all waiters of this process: the kernel
// allows a user only some hundred watches.
type hub struct {
	notices *notices // nil if the kernel gives none
	subs    map[*subscription]struct{}
}

// subscription notifies one waiter of changes.
type subscription struct {
	backend *Backend
	key     string
	hub     *hub
	// seen holds at most one value: many changes are one reason to look.
	seen chan struct{}
	once sync.Once
}

// watch subscribes to changes in the directories. It never fails: without notices of the
// kernel, patience is short.
func (b *Backend) watch(dirs ...string) *subscription {
	key := strings.Join(dirs, "\x00")
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hubs[key]
	if h == nil {
		h = &hub{subs: make(map[*subscription]struct{})}
		h.notices = openNotices(dirs, func() { b.spread(h) })
		b.hubs[key] = h
	}
	s := &subscription{backend: b, key: key, hub: h, seen: make(chan struct{}, 1)}
	h.subs[s] = struct{}{}
	return s
}

// spread notifies all subscriptions of the hub.
func (b *Backend) spread(h *hub) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range h.subs {
		select {
		case s.seen <- struct{}{}:
		default:
		}
	}
}

// stop ends the subscription; the last one closes the watch.
func (s *subscription) stop() {
	s.once.Do(func() {
		b := s.backend
		b.mu.Lock()
		delete(s.hub.subs, s)
		last := len(s.hub.subs) == 0
		if last && b.hubs[s.key] == s.hub {
			delete(b.hubs, s.key)
		}
		b.mu.Unlock()
		if last {
			s.hub.notices.close()
		}
	})
}

func (s *subscription) watching() bool { return s.hub.notices.alive() }

func (s *subscription) patience() time.Duration {
	if s.watching() {
		return patienceWatching
	}
	return patienceBlind
}
