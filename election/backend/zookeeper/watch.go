package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// slot holds a one-shot watch until it has fired or its life ends. One goroutine owns it.
type slot struct {
	life  context.Context
	watch *client.Watch // nil for none
	stop  func() bool
}

// set replaces the watch; nil removes it.
func (s *slot) set(watch *client.Watch) {
	if s.watch != nil && s.stop() {
		s.watch.Close()
	}
	s.watch = watch
	if watch != nil {
		s.stop = context.AfterFunc(s.life, watch.Close)
	}
}

// fired returns a channel that is ready when the watch has fired; nil, which is never
// ready, without a watch.
func (s *slot) fired() <-chan zk.Event {
	if s.watch == nil {
		return nil
	}
	return s.watch.Events()
}

// stands reports whether there is a watch that has not fired.
func (s *slot) stands() bool {
	if s.watch == nil {
		return false
	}
	select {
	case <-s.watch.Events():
		s.set(nil)
		return false
	default:
		return true
	}
}

// Wait returns when the predecessor's znode or this candidate's own has changed
// (zookeeper-K1).
func (e *entry) Wait(ctx context.Context, _ time.Duration) error {
	select {
	case <-e.before.fired():
		e.before.set(nil)
	case <-e.own.fired():
		e.own.set(nil)
	case <-e.session().Done():
		return e.session().Err()
	case <-ctx.Done():
	}
	return nil
}

// watchOwn reads this candidate's znode unless a watch on it is pending, and reports
// whether it exists.
func (e *entry) watchOwn(ctx context.Context) (bool, error) {
	if e.own.stands() {
		return true, nil
	}
	if e.znode.Load() == nil { // the last Enter had no answer
		if err := e.find(ctx); err != nil {
			return false, unless(err, zk.ErrNoNode, nil)
		}
	}
	path := e.znode.Load().path
	stat, found, watch, err := e.session().ExistsW(ctx, path)
	if err != nil {
		return false, err
	}
	e.own.set(watch)
	e.nomination = queue.Nomination{}
	if stat.Version > 0 && found {
		var data []byte
		if data, stat, err = e.session().Get(ctx, path); err == nil {
			e.nomination = nominationIn(data, stat)
		}
		found, err = !errors.Is(err, zk.ErrNoNode), unless(err, zk.ErrNoNode, nil)
	}
	return found, err
}

// Guard watches this candidate's znode and the record. If the session's timeout got
// shorter, the session counts as lost: the leadership's deadline depends on the longer
// timeout, and ZooKeeper's leader may end the session before it.
func (e *entry) Guard(ctx context.Context, news func()) error {
	c := e.session()
	states := c.Subscribe()
	defer states.Close()
	e.describeAgain(ctx)
	for ctx.Err() == nil {
		found, err := e.watchOwn(ctx)
		switch {
		case c.Err() != nil, c.Timeout() < time.Duration(e.timeout.Load()):
			return errGone
		case err != nil:
			return err
		case !found:
			return errGone
		}
		e.watchRecord(ctx, news)
		select {
		case <-c.Done():
		case <-states.Events(): // also closed with the session
		case <-e.own.fired():
			e.own.set(nil)
		case <-e.record.fired():
			e.record.set(nil)
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// watchRecord reports a request in the record. If the record cannot be read, the renewals
// will report why.
func (e *entry) watchRecord(ctx context.Context, news func()) {
	if e.record.stands() {
		return
	}
	data, _, watch, err := e.session().GetW(ctx, e.parent)
	if err != nil {
		return
	}
	e.record.set(watch)
	if r, err := readRecord(data); err == nil && r.Request != nil {
		e.request.Store(r.Request)
		news()
	}
}

// observer observes one election.
type observer struct {
	*store
	name   string
	known  map[string]queue.Holder // by the names of their znodes
	watch  slot
	behind bool // the record does not report the leader yet
}

// Observe returns an observer.
func (s *store) Observe(life context.Context, name string) queue.Observer {
	context.AfterFunc(life, s.look())
	return &observer{store: s, name: name, watch: slot{life: life}}
}

// Look reads the queue and the record, and sets a watch on the queue.
func (o *observer) Look(ctx context.Context, latest bool) (sight queue.Sight, err error) {
	c, err := o.lookingSession(ctx)
	if err == nil && latest {
		err = c.Sync(ctx, "/")
	}
	if err != nil {
		return sight, err
	}
	path := o.parent(o.name)
	children, _, watch, err := c.ChildrenW(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return o.lookAtNothing(ctx, c, path, latest)
	}
	if err != nil {
		return sight, err
	}
	o.watch.set(watch)
	all, err := o.read(ctx, c, path, candidates(children))
	for i, one := range all {
		if i == 0 {
			sight.Holder = one
		} else {
			sight.Waiting = append(sight.Waiting, one.Candidate)
		}
	}
	if err != nil {
		return sight, err
	}
	err = o.readRecord(ctx, c, path, &sight)
	if !latest {
		err = nil // the record is not essential
	}
	return sight, err
}

// read returns the candidates, each as a holder. It does not read a known candidate again,
// because it never changes.
func (o *observer) read(ctx context.Context, c *client.Client, path string, names []string) (all []queue.Holder, err error) {
	known := o.known
	o.known = make(map[string]queue.Holder)
	for _, name := range names {
		one, there := known[name]
		if !there {
			_, ours := priority(name)
			one.Key, one.Foreign = zk.JoinPath(path, name), !ours
			data, stat, err := c.Get(ctx, one.Key)
			if errors.Is(err, zk.ErrNoNode) {
				continue // it is gone; the watch reports that
			}
			if err != nil {
				return nil, err
			}
			seen := describedIn(data)
			one.ID, one.Token, one.Since = seen.id, election.Token(stat.Czxid), time.UnixMilli(stat.Ctime)
			if ours {
				one.Metadata = seen.metadata
			}
		}
		o.known[name] = one
		all = append(all, one)
	}
	return all, nil
}

// readRecord adds what the queue does not show: since when a leader that had to wait has
// led. Other clients do not keep a record.
func (o *observer) readRecord(ctx context.Context, c *client.Client, path string, sight *queue.Sight) error {
	o.behind = false
	data, _, err := c.Get(ctx, path)
	if err != nil {
		return err
	}
	r, err := readRecord(data)
	if err != nil || len(r.History) == 0 {
		return err
	}
	sight.History = r.History
	last := r.History[len(r.History)-1]
	if last.Token == sight.Holder.Token {
		sight.Holder.Since = last.Since
	} else if sight.Holder.Token != 0 && !sight.Holder.Foreign {
		// The znode is older than the leadership, which the leader is about to record.
		o.behind, sight.Holder.Since = true, time.Time{}
	}
	return nil
}

// lookAtNothing waits for the election's first candidate.
func (o *observer) lookAtNothing(ctx context.Context, c *client.Client, path string, latest bool) (queue.Sight, error) {
	_, found, watch, err := c.ExistsW(ctx, path)
	if err != nil {
		return queue.Sight{}, err
	}
	o.watch.set(watch)
	if found {
		return o.Look(ctx, latest)
	}
	return queue.Sight{}, nil
}

// observeRecord is the pause before a record that does not show the leader yet is read
// again.
const observeRecord = 50 * time.Millisecond

// Wait waits for a change.
func (o *observer) Wait(ctx context.Context) error {
	var again <-chan time.Time
	if o.behind {
		again = time.After(observeRecord)
	}
	select {
	case <-o.watch.fired(): // also closed with the session
	case <-again:
	case <-ctx.Done():
	}
	return nil
}
