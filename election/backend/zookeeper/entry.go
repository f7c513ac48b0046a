package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// entry is a candidate: its znode.
type entry struct {
	*store
	claim  election.Claim
	parent string

	client atomic.Pointer[client.Client] // nil before Create
	znode  atomic.Pointer[znode]         // nil while it is not known whether it was created
	left   atomic.Bool                   // it was deleted for good
	// own, before and nomination are the waiter's; own and record are Guard's.
	own, before, record slot
	nomination          queue.Nomination
	request             atomic.Pointer[election.Request] // as Guard has seen it in the record
	timeout             atomic.Int64                     // of the session, as the latest proof rests on it
	clearing            sync.Once

	mu    sync.Mutex
	last  record // as the latest History has shown it
	queue slot   // a watch on the queue
	rival string // as of the look that left it
}

// znode is a candidate's.
type znode struct {
	path, name string
	czxid      zk.Zxid
}

// Entry returns the znode of a claim.
func (s *store) Entry(life context.Context, claim election.Claim) queue.Entry {
	one := slot{life: life}
	return &entry{store: s, claim: claim, parent: s.parent(claim.Election), own: one, before: one, record: one, queue: one}
}

func (e *entry) session() *client.Client { return e.client.Load() }

// Create opens a session, which its client keeps alive.
func (e *entry) Create(ctx context.Context) (queue.Lease, error) {
	c, err := e.store.session(ctx, e.claim.Lease)
	if err == nil {
		e.client.Store(c)
	}
	return queue.Lease{}, err
}

// Renew reports whether the session lives.
func (e *entry) Renew(context.Context) (queue.Lease, error) { return queue.Lease{}, e.session().Err() }

// Enter creates the znode, and what is missing above it. When the answer is lost it looks
// whether the znode is there (zookeeper-K4). A claim whose znode was taken out enters again:
// then the znode that it had is gone, and whether it has another one is not known before
// there is an answer.
func (e *entry) Enter(ctx context.Context) error {
	e.znode.Store(nil)
	data := described{id: e.claim.ID, metadata: e.claim.Metadata}.data()
	options := client.CreateOptions{Mode: zk.EphemeralSequential, ACL: e.options.ACL}
	for {
		path, stat, err := e.session().CreateAll(ctx, zk.JoinPath(e.parent, prefix(e.claim)), data, options)
		switch {
		case err == nil:
			e.know(path, stat)
		case client.OutcomeOf(err) != client.NotApplied && ctx.Err() == nil:
			if err = e.find(ctx); errors.Is(err, zk.ErrNoNode) {
				continue
			}
		}
		return err
	}
}

// find looks for the znode by the nonce. One that another session of this process
// has made dies with that session and is not used.
func (e *entry) find(ctx context.Context) error {
	path, err := e.session().FindProtected(ctx, e.parent, prefix(e.claim))
	if err != nil {
		return err
	}
	stat, found, err := e.session().Exists(ctx, path)
	switch {
	case err != nil:
		return err
	case !found:
		return zk.ErrNoNode
	}
	e.know(path, stat)
	return nil
}

// know takes note of the znode that there is.
func (e *entry) know(path string, stat zk.Stat) {
	_, name := zk.SplitPath(path)
	e.znode.Store(&znode{path, name, stat.Czxid})
}

// Place finds the znode in the queue, and watches it and the one before. A list
// may be old, but an entry that is missing from it before this one is gone for good:
// numbers only grow.
func (e *entry) Place(ctx context.Context) (queue.Place, error) {
	gone := queue.Place{Standing: queue.Gone}
	for {
		if found, err := e.watchOwn(ctx); err != nil || !found {
			e.own.set(nil)
			return gone, err
		}
		names, err := e.queued(ctx)
		if err != nil {
			return gone, unless(err, zk.ErrNoNode, nil)
		}
		own := e.znode.Load()
		switch at := slices.Index(names, own.name); at {
		case -1:
			e.own.set(nil)
			return gone, nil
		case 0:
			return queue.Place{Standing: queue.Head, Token: election.Token(own.czxid)}, nil
		default:
			_, found, watch, err := e.session().ExistsW(ctx, zk.JoinPath(e.parent, names[at-1]))
			if err != nil {
				return gone, err
			}
			e.before.set(watch)
			if found {
				return queue.Place{Standing: queue.Queued, Nomination: e.nomination}, nil
			}
		}
	}
}

// queued are the names in the queue, in order. A session that ends ends the question,
// and so does the end of the store: the caller may have left.
func (e *entry) queued(ctx context.Context) ([]string, error) {
	if !e.store.enter() {
		return nil, errClosed
	}
	defer e.group.Done()
	of := queueOf{e.session(), e.parent}
	return e.lists.candidates(ctx, of, e.group.Go, func() ([]string, error) {
		children, _, err := of.client.Children(e.store.life, of.parent)
		return children, err
	})
}

// driftPart is which part of the session timeout is kept clear for clocks that do not run
// at one rate. They drift for all of the timeout, and the Elector knows of the lease,
// three quarters of it: what is missing is greatest, 1.8 per cent, for a server that
// is 15 per cent faster.
const driftPart = 50

// Prove has a quorum decide a transaction that fails without the znode, and then
// looks whose znode it is (zookeeper-K3, zookeeper-K6).
//
// A read would not do, nor would a sync: a follower that is partitioned answers
// reads for some time, and a leader that was deposed answers a sync.
func (e *entry) Prove(ctx context.Context, history *queue.History) (proof queue.Proof, err error) {
	own, sent := e.znode.Load(), e.store.options.Client.Clock.Now()
	ops := []client.Operation{client.CheckOp(own.path, -1)}
	if history != nil {
		ops = append(ops, e.lastRecord().of(election.Token(own.czxid), history.Tenures).write(e.parent, history.Version))
		proof.Version = history.Version + 1
	}
	if _, err := e.session().Multi(ctx, ops...); err != nil {
		return proof, unlessHistory(unless(unless(err, zk.ErrNoNode, errGone), zk.ErrBadVersion, queue.ErrConflict), history)
	}
	stat, found, err := e.session().Exists(ctx, own.path)
	if err != nil {
		return proof, err
	}
	if !found || zk.SessionID(stat.EphemeralOwner) != e.session().SessionID() || stat.Czxid != own.czxid {
		return proof, fmt.Errorf("%w: %s is owned by session 0x%x, created by %v", election.ErrLost, own.path, stat.EphemeralOwner, stat.Czxid)
	}
	timeout := e.session().Timeout()
	e.timeout.Store(int64(timeout))
	proof.Length = timeout * 3 / 4
	proven, _ := e.session().ProvenUntil()
	proof.Sent = min(sent, proven.Add(-proof.Length-timeout/driftPart))
	proof.Request = e.request.Load()
	if history == nil {
		proof.Rival = e.findRival(ctx)
	}
	return proof, nil
}

// History reads the record.
func (e *entry) History(ctx context.Context) (queue.History, error) {
	data, stat, err := e.session().Get(ctx, e.parent)
	if err != nil {
		return queue.History{}, unless(err, zk.ErrNoAuth, queue.ErrNoHistory)
	}
	r, err := readRecord(data)
	if err != nil {
		return queue.History{}, queue.ErrNoHistory
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = r
	return queue.History{Tenures: r.History, Version: uint64(stat.Version)}, nil
}

func (e *entry) lastRecord() record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// Note writes the history into the record.
func (e *entry) Note(ctx context.Context, history queue.History) error {
	r := e.lastRecord()
	r.History = history.Tenures
	_, err := e.session().Multi(ctx, r.write(e.parent, history.Version))
	return err
}

// clearPause is the pause between two tries to remove what a failed release
// has left.
const clearPause = 200 * time.Millisecond

// Revoke deletes the znode. After a failure that goes on in the background: the
// session may live on for other elections, and with it a znode that leads for
// nobody.
func (e *entry) Revoke(ctx context.Context) error {
	if e.session() == nil || e.left.Load() {
		return nil
	}
	err := e.remove(ctx)
	if err != nil && e.store.enter() {
		defer e.group.Done()
		e.clearing.Do(func() { e.group.Go(e.clear) })
	}
	return err
}

// clear removes what is left of a claim, as long as it takes.
func (e *entry) clear() {
	for e.remove(e.life) != nil {
		select {
		case <-time.After(clearPause):
		case <-e.life.Done():
			return
		}
	}
}

// remove deletes the znode. Where it is not known whether there is one, and with
// a session that is over, it is looked for by its nonce first: the servers may
// think otherwise.
func (e *entry) remove(ctx context.Context) error {
	own, c := e.znode.Load(), e.session()
	path := ""
	if own != nil {
		path = own.path
	}
	if own == nil || c.Err() != nil {
		var err error
		if c, err = e.store.session(ctx, e.claim.Lease); err != nil {
			return err
		}
		if path, err = c.FindProtected(ctx, e.parent, prefix(e.claim)); err != nil {
			return unless(err, zk.ErrNoNode, nil)
		}
	}
	return unless(c.Delete(ctx, path, -1), zk.ErrNoNode, nil)
}
