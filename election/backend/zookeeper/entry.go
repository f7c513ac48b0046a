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

// entry is a candidate with its znode.
type entry struct {
	*store
	claim  election.Claim
	parent string

	client atomic.Pointer[client.Client] // nil before Create
	znode  atomic.Pointer[znode]         // nil while it is not known whether it exists
	left   atomic.Bool                   // it was deleted and will not be created again
	// The waiter uses own, before and nomination; Guard uses own and record.
	own, before, record slot
	nomination          queue.Nomination
	request             atomic.Pointer[election.Request] // the one that Guard has seen in the record
	timeout             atomic.Int64                     // of the session, on which the last proof depends
	clearing            sync.Once

	mu    sync.Mutex
	last  record // as the last History has read it
	queue slot   // a watch on the queue
	rival string // as of the read that has set the watch
}

// znode is the znode of a candidate.
type znode struct {
	path, name string
	czxid      zk.Zxid
}

// Entry returns the candidate of a claim.
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

// Renew reports whether the session is alive.
func (e *entry) Renew(context.Context) (queue.Lease, error) { return queue.Lease{}, e.session().Err() }

// Enter creates the znode and its missing parents. If the answer is lost, it checks whether
// the znode exists (zookeeper-K4). A claim whose znode was removed enters again: its former
// znode is gone, and until there is an answer it is not known whether it has a new one.
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

// find looks for the znode by the nonce. One that another session of this process has
// created is not used, because it disappears with that session.
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

// know records the znode that exists.
func (e *entry) know(path string, stat zk.Stat) {
	_, name := zk.SplitPath(path)
	e.znode.Store(&znode{path, name, stat.Czxid})
}

// Place finds the znode in the queue, and watches it and its predecessor. The list may be
// old, but an entry before this one that is missing from it is gone for good, because
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

// queued returns the names in the queue, in order. The request ends with the session and
// with the store; the caller may have left before.
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

// driftPart is the part of the session timeout that is reserved for clocks that differ in
// rate (one in 50). The clocks drift during the whole timeout, but the Elector only knows
// the lease, three quarters of it. The difference is greatest, 1.8 per cent, for a server
// that is 15 per cent faster.
const driftPart = 50

// Prove has a quorum decide a transaction that fails without the znode, and then checks
// whose znode it is (zookeeper-K3, zookeeper-K6).
//
// Neither a read nor a sync is enough: a partitioned follower answers reads for some time,
// and a deposed leader answers a sync.
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

// clearPause is the pause between two attempts to remove what a failed release has left.
const clearPause = 200 * time.Millisecond

// Revoke deletes the znode. After a failure it continues in the background: the session may
// last for other elections, and keep a znode that leads although its claim has ended.
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

// clear removes what is left of a claim, however long that takes.
func (e *entry) clear() {
	for e.remove(e.life) != nil {
		select {
		case <-time.After(clearPause):
		case <-e.life.Done():
			return
		}
	}
}

// remove deletes the znode. If it is not known whether the znode exists, or if the session
// is over, it first looks for the znode by its nonce, because the servers may still have
// it.
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
