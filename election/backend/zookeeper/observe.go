package zookeeper

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// observePause is the pause after a failure, and the least time between two
// looks at a queue that changes all the time.
const (
	observePause  = 500 * time.Millisecond
	observeSettle = 2 * time.Millisecond
	// observeBook is the pause before another look at a book that does not
	// tell of the leader yet.
	observeBook = 50 * time.Millisecond
	// observeLease is the session timeout of a backend that only observes.
	observeLease = 10 * time.Second
)

// member is what is known of a candidate; it never changes.
type member struct {
	id    string
	czxid zk.Zxid
	ctime int64
}

// observer is one call of Observe.
type observer struct {
	backend *Backend
	name    string
	parent  string
	members map[string]member
	behind  bool   // the book does not tell of the leader yet
	leader  string // path of the leader's znode at the last look, "" for none
}

// Observe yields the queue whenever it has changed.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	o := &observer{backend: b, name: name, parent: b.parent(name), members: make(map[string]member)}
	return func(yield func(election.View, error) bool) {
		last, first, failed := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			view, watch, err := o.look(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				view = last
			}
			if (first || failed != (err != nil) || !equal(view, last)) && !yield(view, err) {
				return
			}
			last, first, failed = view, false, err != nil
			o.wait(ctx, watch)
		}
	}
}

// wait waits for a change after a success, and for a pause after a failure.
func (o *observer) wait(ctx context.Context, watch *client.Watch) {
	if watch == nil {
		sleep(ctx, observePause)
		return
	}
	defer watch.Close()
	var again <-chan time.Time
	if o.behind {
		again = time.After(observeBook)
	}
	select {
	case <-watch.Events(): // also closed with the session
		sleep(ctx, observeSettle)
	case <-again:
	case <-ctx.Done():
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// look reads the queue and leaves a watch on it.
func (o *observer) look(ctx context.Context) (election.View, *client.Watch, error) {
	view := election.View{Election: o.name}
	c, err := o.backend.session(ctx, observeLease)
	if err != nil {
		return view, nil, err
	}
	children, _, watch, err := c.ChildrenW(ctx, o.parent)
	if errors.Is(err, zk.ErrNoNode) {
		return o.lookAtNothing(ctx, c)
	}
	if err != nil {
		return view, nil, mark(err)
	}
	queue := candidates(children)
	o.leader = ""
	for _, name := range queue {
		m, found, err := o.member(ctx, c, name)
		switch {
		case err != nil:
			watch.Close()
			return view, nil, mark(err)
		case !found: // gone since; the watch will tell
		case view.Leader == "" && view.Token == 0:
			view.Leader, view.Token = m.id, election.Token(m.czxid)
			view.Since = time.UnixMilli(m.ctime)
			o.leader = zk.JoinPath(o.parent, name)
		default:
			view.Candidates = append(view.Candidates, m.id)
		}
	}
	o.forget(queue)
	o.consultBook(ctx, c, &view)
	if o.behind {
		_, o.behind = priority(queue[0]) // others keep no book
	}
	return view, watch, nil
}

// consultBook adds what the queue does not tell, as far as the book does: since
// when a leader leads that has waited, and the token of the last one.
func (o *observer) consultBook(ctx context.Context, c *client.Client, view *election.View) {
	o.behind = false
	data, _, err := c.Get(ctx, o.parent)
	if err != nil {
		return
	}
	page, err := readBook(data)
	if err != nil || len(page.History) == 0 {
		return
	}
	switch last := page.History[len(page.History)-1]; {
	case view.Leader == "":
		view.Token = last.Token
	case view.Token == last.Token:
		view.Since = last.Since
	default:
		o.behind = true
	}
}

// lookAtNothing waits for the election's first candidate.
func (o *observer) lookAtNothing(ctx context.Context, c *client.Client) (election.View, *client.Watch, error) {
	view := election.View{Election: o.name}
	_, found, watch, err := c.ExistsW(ctx, o.parent)
	if err != nil {
		return view, nil, mark(err)
	}
	if found {
		watch.Close()
		return o.look(ctx)
	}
	return view, watch, nil
}

func (o *observer) member(ctx context.Context, c *client.Client, name string) (member, bool, error) {
	if m, ok := o.members[name]; ok {
		return m, true, nil
	}
	data, stat, err := c.Get(ctx, zk.JoinPath(o.parent, name))
	if errors.Is(err, zk.ErrNoNode) {
		return member{}, false, nil
	}
	if err != nil {
		return member{}, false, err
	}
	m := member{id: idOf(data), czxid: stat.Czxid, ctime: stat.Ctime}
	o.members[name] = m
	return m, true, nil
}

// forget drops those who have gone.
func (o *observer) forget(queue []string) {
	for name := range o.members {
		if !slices.Contains(queue, name) {
			delete(o.members, name)
		}
	}
}

func equal(a, b election.View) bool {
	return a.Leader == b.Leader && a.Token == b.Token && a.Since.Equal(b.Since) &&
		slices.Equal(a.Candidates, b.Candidates)
}
