package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	events "k8s.io/apimachinery/pkg/watch"

	"github.com/conclave-project/conclave/election/record"
)

const (
	// pollEvery is the pause between two reads while the Lease is not watched.
	pollEvery = time.Second
	// idleMax is how long a watch continues while nobody waits for it.
	idleMax = 5 * time.Second
	// watchMax is how long the server keeps one watch open.
	watchMax = 10 * time.Minute
	// readMax is how long a read may take. If the watch saw a later version longer ago than
	// that, the read was not just slow.
	readMax = 200 * time.Millisecond
)

// watch is the watch that all waiters of an election share. Its goroutine ends some time
// after the last of them has left.
type watch struct {
	cancel context.CancelFunc

	// The store's mutex guards the following fields.

	// version is the last one seen, "" before the first. gone means that this version
	// deleted the Lease.
	version string
	gone    bool
	// lease is the Lease of that version; nil if only the version is known.
	lease *coordination.Lease
	seen  time.Time // when version was seen
	// forget means that the next stream begins with the current state.
	forget bool
	// resets counts how often the server no longer knew the version.
	resets int
	// broken means that the watch does not work now, so waiters poll.
	broken  bool
	changed chan struct{} // closed and replaced with every change of the fields above
	// restart ends the current stream, or the request for it, so that a new one begins.
	restart context.CancelFunc
	waiting int
	idle    *time.Timer // ends the watch; nil while somebody waits
}

// Watches says that Wait learns of changes.
func (s *store) Watches() bool { return true }

// Wait returns when the watch has seen another version than the given one.
func (s *store) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := s.WaitTold(ctx, name, version, limit)
	return err
}

// WaitTold is Wait, and also returns the later version that the watch has seen.
func (s *store) WaitTold(ctx context.Context, name, version string, limit time.Duration) (none record.News, err error) {
	w, err := s.enter(name, version)
	if err != nil {
		return none, err
	}
	defer s.leave(w)
	end := time.NewTimer(limit)
	defer end.Stop()
	poll := time.NewTimer(pollEvery)
	defer poll.Stop()
	s.doubt(w, version)
	resets := s.look(w).resets
	for polled := false; ; {
		now := s.look(w)
		switch {
		case now.resets != resets || polled && now.broken:
			return none, nil
		case now.later(version):
			return now.news(), nil
		case polled && compare(now.version, version) < 0:
			now.restart() // it is older than what was read a second ago
			return none, nil
		}
		select {
		case <-now.changed:
		case <-poll.C:
			polled = true
		case <-end.C:
			return none, nil
		case <-s.done:
			return none, errClosed
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// news returns the Lease that was seen last; none if it was deleted or not seen.
func (w watch) news() record.News {
	if w.lease == nil || w.gone {
		return record.News{}
	}
	return record.News{Record: recordOf(w.lease), Version: w.version}
}

// doubt restarts the watch if it has seen a later version than one that was read some time
// afterwards. Versions have then gone back, because etcd was restored from a copy: the
// watch's version would always count as news, and no newer one would arrive.
func (s *store) doubt(w *watch, version string) {
	now := s.look(w)
	if now.later(version) && time.Since(now.seen) > readMax {
		s.begin(w)
		now.restart()
	}
}

// begin lets the next stream begin with the current state, and makes all waiters read.
func (s *store) begin(w *watch) {
	s.tell(w, func() { w.version, w.lease, w.forget, w.resets = "", nil, true, w.resets+1 })
}

// later reports whether the watch has seen a later version than the given one.
func (w watch) later(version string) bool {
	return compare(w.version, version) > 0 || version == "" && w.version != "" && !w.gone
}

// look returns a copy of the watch's state.
func (s *store) look(w *watch) watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *w
}

// compare returns 1 if the seen version is later, -1 if the given one is, and 0 if neither
// is or one is missing.
func compare(seen, given string) int {
	a, err1 := strconv.ParseUint(seen, 10, 64)
	b, err2 := strconv.ParseUint(given, 10, 64)
	switch {
	case seen == "" || given == "" || seen == given:
		return 0
	case err1 != nil || err2 != nil:
		return 1 // versions that are not numbers: any difference is news
	}
	return cmp.Compare(a, b)
}

// enter returns the election's watch. If there is none, it starts one at the version.
func (s *store) enter(name, version string) (*watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	w := s.watches[name]
	if w == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{cancel: cancel, version: version, seen: time.Now(), changed: make(chan struct{}), restart: func() {}}
		s.watches[name] = w
		s.group.Go(func() { s.follow(ctx, name, w) })
	}
	w.waiting++
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	return w, nil
}

func (s *store) leave(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiting--; w.waiting == 0 && !s.closed {
		w.idle = time.AfterFunc(idleMax, func() { s.expire(w) })
	}
}

// expire ends a watch unless somebody waits again.
func (s *store) expire(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiting > 0 {
		return
	}
	for name, other := range s.watches {
		if other == w {
			delete(s.watches, name)
		}
	}
	w.cancel()
}

// follow keeps a watch open until its context ends. A stream that ends is resumed after the
// last version seen. If the server no longer knows that version, all waiters are told to
// read, and the watch begins with the current state.
func (s *store) follow(ctx context.Context, name string, w *watch) {
	from := w.version // only this goroutine changes it
	for {
		begun := time.Now()
		err := s.stream(ctx, name, &from, w)
		if ctx.Err() != nil {
			return
		}
		if forgotten(err) {
			s.begin(w)
		}
		if err == nil && time.Since(begun) > pollEvery {
			continue
		}
		s.tell(w, func() { w.broken = true })
		pause := time.NewTimer(pollEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// stream opens one stream and reports its events until it ends.
func (s *store) stream(ctx context.Context, name string, from *string, w *watch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	w.restart = cancel // set before the request, which may get no answer
	if w.forget {
		*from, w.forget = "", false
	}
	s.mu.Unlock()
	seconds := int64(watchMax / time.Second)
	options := &meta.ListOptions{Watch: true, ResourceVersion: *from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", object(name)).String()}
	stream, err := s.watcher.Get().MaxRetries(0).Namespace(s.namespace).Resource(resource).
		VersionedParams(options, parameter).Watch(ctx)
	if err != nil {
		return err
	}
	defer stream.Stop()
	s.tell(w, func() { w.broken = false })
	for event := range stream.ResultChan() {
		if event.Type == events.Error {
			return api.FromObject(event.Object)
		}
		lease, ok := event.Object.(*coordination.Lease)
		if !ok {
			return fmt.Errorf("watch: an event of type %s carries a %T", event.Type, event.Object)
		}
		*from = lease.ResourceVersion
		if event.Type != events.Bookmark {
			s.tell(w, func() {
				w.version, w.lease, w.gone, w.seen = lease.ResourceVersion, lease, event.Type == events.Deleted, time.Now()
			})
		}
	}
	return nil
}

// tell changes the watch and wakes all waiters.
func (s *store) tell(w *watch, change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// forgotten reports whether the server no longer knows the version.
func forgotten(err error) bool {
	var status api.APIStatus
	return api.IsResourceExpired(err) || api.IsGone(err) ||
		errors.As(err, &status) && status.Status().Code == http.StatusGone
}
