package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// errWatch says that a watch has ended although nobody has ended it.
var errWatch = errors.New("the watch has ended")

// watch follows one key. It stays open from one wait to the next, and ends with its
// context.
type watch struct {
	key     string                  // empty for none
	opening chan clientv3.WatchChan // brings events; nil once it has
	events  clientv3.WatchChan      // nil before
	cancel  context.CancelFunc
}

// follow watches a key from a revision on, unless it already does. An empty key ends the
// watch. It does not wait for the server, which may be silent while other servers answer.
func (w *watch) follow(ctx context.Context, client *clientv3.Client, key string, from int64, options ...clientv3.OpOption) {
	if w.key == key {
		return
	}
	w.stop()
	if key == "" {
		return
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	opening := make(chan clientv3.WatchChan, 1)
	w.key, w.cancel, w.opening = key, cancel, opening
	go func() { opening <- client.Watch(ctx, key, append(options, clientv3.WithRev(from))...) }()
}

// opened stores the events of a watch that is now open.
func (w *watch) opened(events clientv3.WatchChan) { w.events, w.opening = events, nil }

func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	*w = watch{}
}

// failed reports whether this response ends the watch.
func failed(response clientv3.WatchResponse, open bool) bool { return !open || response.Err() != nil }

// Quiet implements queue.Quiet. Events that arrive at the limit stay in their channel.
func (e *entry) Quiet() bool { return e.quiet }

// Wait returns when the predecessor's key is gone or this candidate's key has changed.
func (e *entry) Wait(ctx context.Context, limit time.Duration) error {
	e.quiet = false
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case events := <-e.before.opening:
			e.before.opened(events)
			continue
		case events := <-e.own.opening:
			e.own.opened(events)
			continue
		case response, open := <-e.before.events:
			e.before.stop()
			if failed(response, open) {
				return errWatch
			}
		case response, open := <-e.own.events:
			if failed(response, open) {
				e.own.stop()
				return errWatch
			}
		case <-timer.C:
			e.quiet = e.before.opening == nil && e.own.opening == nil
		case <-ctx.Done():
		}
		return nil
	}
}

// Guard watches this candidate's key. A deleted key may be put again at the end of the
// queue, but only if the candidate has not led yet.
func (e *entry) Guard(_ context.Context, news func()) error {
	e.before.stop()
	defer e.own.stop()
	defer news() // because events may have been missed
	e.own.follow(e.life, e.client, e.key, max(e.created.Load(), e.watched)+1)
	if e.own.opening != nil {
		e.own.opened(<-e.own.opening)
	}
	for response := range e.own.events {
		e.watched = response.CompactRevision - 1 // older events are no longer available
		if response.Err() != nil {
			return errWatch
		}
		e.watched = response.Header.Revision
		for _, event := range response.Events {
			if event.Type == clientv3.EventTypeDelete && event.Kv.ModRevision > e.created.Load() {
				return errNoKey
			}
		}
		news()
	}
	return errWatch
}

// span is a key, or a range of keys if end is set.
type span struct{ from, end string }

// awaitChange returns after a change in one of the spans that is later than the revision,
// or after the limit. An error means that changes cannot be watched.
func (s *store) awaitChange(ctx context.Context, revision int64, limit time.Duration, first, second span) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), limit)
	defer cancel()
	one, two := s.watchSpan(ctx, first, revision), s.watchSpan(ctx, second, revision)
	var response clientv3.WatchResponse
	open := true
	select {
	case response, open = <-one:
	case response, open = <-two:
	case <-ctx.Done():
	}
	if ctx.Err() == nil && failed(response, open) {
		return errWatch
	}
	return nil
}

func (s *store) watchSpan(ctx context.Context, keys span, revision int64) clientv3.WatchChan {
	options := []clientv3.OpOption{clientv3.WithRev(revision + 1)}
	if keys.end != "" {
		options = append(options, clientv3.WithRange(keys.end))
	}
	return s.client.Watch(ctx, keys.from, options...)
}

// observer observes one election.
type observer struct {
	*store
	name     string
	revision int64 // of the last Look
}

// Observe returns an observer.
func (s *store) Observe(_ context.Context, name string) queue.Observer {
	return &observer{store: s, name: name}
}

// observeLimit is after how long an observer reads without an event: etcd's client does not
// report that a watch has lost its link.
const observeLimit = 5 * time.Second

// Look reads the queue and the history by quorum. It does not know when a candidate of
// another program was elected.
func (o *observer) Look(ctx context.Context, _ bool) (sight queue.Sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	all, answer, err := o.queue(ctx, o.name, clientv3.OpGet(o.keys.history(o.name)),
		clientv3.OpGet(o.keys.described(o.name), clientv3.WithPrefix()))
	if err != nil {
		return sight, err
	}
	o.revision = answer.Header.Revision
	sight.History = decodeHistory(kvs(answer, 0)).Tenures
	o.describe(all, kvs(answer, 1))
	if len(all) > 0 {
		sight.Holder = queue.Holder{Candidate: all[0], Token: election.Token(all[0].Created)}
		sight.Waiting = all[1:]
	}
	return sight, nil
}

// describe adds the candidates' metadata.
func (o *observer) describe(all []queue.Candidate, found []*mvccpb.KeyValue) {
	metadata := make(map[string][]byte, len(found))
	for _, kv := range found {
		metadata[string(kv.Key)] = kv.Value
	}
	for i, c := range all {
		all[i].Metadata = metadata[o.keys.metadata(o.name, c.Key)]
	}
}

// Wait waits for a change of the queue or of the history.
func (o *observer) Wait(ctx context.Context) error {
	from, end := o.keys.queue(o.name)
	return o.awaitChange(ctx, o.revision, observeLimit, span{from, end}, span{from: o.keys.history(o.name)})
}
