package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// Times between two looks, and for the stream to a browser.
const (
	lookTime      = time.Second
	electionsTime = 2 * time.Second
	pauseTime     = 2 * time.Second  // after a stream failed
	eventTime     = 10 * time.Second // within which a browser must take an event
	aliveTime     = 15 * time.Second // without an event; then something is sent, to notice browsers that are gone
)

// eventsWaiting is how many events of a stream may wait for one browser.
const eventsWaiting = 256

// stream is one kind of events, produced once for all followers, and only while
// there are some (dashboard-D3).
type stream struct {
	produce func(ctx context.Context, publish func(any)) error

	mu        sync.Mutex
	followers map[*follower]struct{}
	last      []byte // the last event, for new followers
	stop      context.CancelFunc
	running   sync.WaitGroup
	closed    bool
}

// follower is one browser that follows one stream.
type follower struct {
	events chan []byte
	lost   int // guarded by the stream's mu
}

// every makes a stream of periodic looks.
func every(pause time.Duration, look func(context.Context) (any, error)) func(context.Context, func(any)) error {
	return func(ctx context.Context, publish func(any)) error {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			seen, err := look(ctx)
			if err != nil {
				return err
			}
			publish(seen)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// follow begins to follow; nil once the stream is closed.
func (s *stream) follow() *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	f := &follower{events: make(chan []byte, eventsWaiting)}
	if s.followers == nil {
		s.followers = map[*follower]struct{}{}
	}
	s.followers[f] = struct{}{}
	if s.stop != nil {
		if s.last != nil {
			f.events <- s.last
		}
		return f
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.last = stop, nil
	s.running.Go(func() { s.run(ctx) })
	return f
}

// unfollow removes a follower; the last one stops the stream.
func (s *stream) unfollow(f *follower) {
	s.mu.Lock()
	delete(s.followers, f)
	if len(s.followers) == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
	s.mu.Unlock()
}

// close ends the stream for ever.
func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	s.mu.Unlock()
	s.running.Wait()
}

// run produces events until ctx ends. A failure is an event, too.
func (s *stream) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.produce(ctx, func(value any) { s.publish(ctx, value) })
		if err == nil || ctx.Err() != nil {
			continue
		}
		text, hint, _ := cli.Describe(err)
		s.publish(ctx, Problem{text, hint})
		select {
		case <-time.After(pauseTime):
		case <-ctx.Done():
		}
	}
}

// publish hands an event to all followers. Events of a stopped run are dropped.
func (s *stream) publish(ctx context.Context, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		text, _ = json.Marshal(Problem{Error: err.Error()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.last = text
	for f := range s.followers {
		select {
		case f.events <- text:
		default:
			f.lost++ // dashboard-D4
		}
	}
}

// taken returns how many events a follower has lost since it was last asked.
func (s *stream) taken(f *follower) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := f.lost
	f.lost = 0
	return lost
}

// part is one of the streams of an answer. Its events come as server-sent events of its name.
type part struct {
	name string
	*stream
	*follower
}

// sent is a server-sent event.
type sent struct {
	name string
	text []byte
}

// parts follows the streams that the query "of" names. It returns false if it has refused the
// request; what it follows by then has to be unfollowed, too.
func (d *Dashboard) parts(w http.ResponseWriter, r *http.Request) (parts []part, ok bool) {
	for name := range strings.SplitSeq(r.URL.Query().Get("of"), ",") {
		s := d.streams[name]
		if s == nil {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("there is no stream %q", name), "write of=look,elections, and log where about says that there is one")
			return parts, false
		}
		if slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("%q is named twice", name), "name each stream once")
			return parts, false
		}
		f := s.follow()
		if f == nil {
			refuse(w, http.StatusServiceUnavailable, "the server ends", "")
			return parts, false
		}
		parts = append(parts, part{name, s, f})
	}
	return parts, true
}

// bring passes the events of a stream on, in order, until the context ends. An event "lost" says
// how many were dropped.
func (p part) bring(ctx context.Context, merged chan<- sent) {
	pass := func(e sent) bool {
		select {
		case merged <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		select {
		case text := <-p.events:
			if lost := p.taken(p.follower); lost > 0 && !pass(sent{"lost", fmt.Appendf(nil, `{"of":%q,"events":%d}`, p.name, lost)}) {
				return
			}
			if !pass(sent{p.name, text}) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// events sends the streams that the query "of" names.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	parts, ok := d.parts(w, r)
	defer func() {
		for _, p := range parts {
			p.unfollow(p.follower)
		}
	}()
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	ctx := r.Context()
	send := func(name string, text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(eventTime))
		_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
		return err == nil && control.Flush() == nil
	}
	if !send("begin", []byte("{}")) {
		return
	}
	merged := make(chan sent)
	var bringing sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer bringing.Wait()
	defer cancel()
	for _, p := range parts {
		bringing.Go(func() { p.bring(ctx, merged) })
	}
	alive := time.NewTicker(aliveTime)
	defer alive.Stop()
	for {
		select {
		case e := <-merged:
			if !send(e.name, e.text) {
				return
			}
		case <-alive.C:
			if !send("alive", []byte("{}")) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// strictly decodes exactly one JSON value.
func strictly(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("there is more behind the value")
	}
	return nil
}

// isRefused reports whether a server refused a request because of missing permissions.
func isRefused(err error) bool { return errors.Is(err, zk.ErrNoAuth) }

// isConflict reports whether a change conflicts with the current state.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNotEmpty)
}
