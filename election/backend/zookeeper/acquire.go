package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// Acquire joins the queue and waits until all before it have gone.
func (b *Backend) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	c, err := b.session(ctx, claim.Lease)
	if err != nil {
		return election.Grant{}, err
	}
	s := &seat{session: c, parent: b.parent(claim.Election), claim: claim}
	s.ctx, s.leave = context.WithCancel(context.Background())
	b.setSeat(claim.Nonce, s)
	for {
		grant, err := b.standInLine(ctx, s)
		if !errors.Is(err, errGone) || s.session.Err() != nil || ctx.Err() != nil {
			return grant, err
		}
		// Taken out of the queue by a transfer, or by an operator: at its end
		// there is room.
		s.spot.Store(nil)
	}
}

// standInLine joins the queue and waits until all before this claim have gone.
func (b *Backend) standInLine(ctx context.Context, s *seat) (election.Grant, error) {
	if err := b.join(ctx, s); err != nil {
		return election.Grant{}, fmt.Errorf("zookeeper: join %s: %w", s.parent, mark(err))
	}
	gone, err := b.awaitTurn(ctx, s)
	if err != nil {
		return election.Grant{}, fmt.Errorf("zookeeper: wait in %s: %w", s.parent, mark(err))
	}
	grant, err := b.enter(ctx, s)
	if err != nil {
		gone.Close()
		return election.Grant{}, err
	}
	lost, news := make(chan struct{}), make(chan struct{}, 1)
	grant.Lost, grant.News = lost, news
	b.group.Go(func() { s.guard(gone, lost) })
	b.group.Go(func() { s.hearRequests(news) })
	return grant, nil
}

// join creates the candidate's znode. When the answer is lost it looks whether
// the znode is there (K4).
func (b *Backend) join(ctx context.Context, s *seat) error {
	claim := s.claim
	options := client.CreateOptions{Mode: zk.EphemeralSequential, ACL: b.options.ACL}
	for {
		path, stat, err := s.session.Create(ctx, zk.JoinPath(s.parent, prefix(claim)), []byte(claim.ID), options)
		if errors.Is(err, zk.ErrNoNode) {
			if err := b.makeParents(ctx, s.session, s.parent); err != nil {
				return err
			}
			continue
		}
		if err != nil && client.OutcomeOf(err) != client.NotApplied && ctx.Err() == nil {
			path, stat, err = b.find(ctx, s, claim)
			if errors.Is(err, zk.ErrNoNode) {
				continue
			}
		}
		if err == nil {
			s.spot.Store(&spot{path, stat.Czxid})
		}
		return err
	}
}

// find looks for the claim's znode by its nonce. One that another session of
// this process has made dies with that session and is not used.
func (b *Backend) find(ctx context.Context, s *seat, claim election.Claim) (string, zk.Stat, error) {
	path, err := s.session.FindProtected(ctx, s.parent, prefix(claim))
	if err != nil {
		return "", zk.Stat{}, err
	}
	stat, found, err := s.session.Exists(ctx, path)
	if err == nil && !found {
		err = zk.ErrNoNode
	}
	return path, stat, err
}

// makeParents makes the election's znode, and what is missing above it. What is
// there is left alone: the right to create beside it may be somebody else's.
func (b *Backend) makeParents(ctx context.Context, c *client.Client, path string) error {
	for {
		_, _, err := c.Create(ctx, path, nil, client.CreateOptions{Mode: zk.Persistent, ACL: b.options.ACL})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case client.OutcomeOf(err) == client.Unknown && ctx.Err() == nil && c.Err() == nil: // again
		case errors.Is(err, zk.ErrNoNode) && path != zk.RootPath:
			if err := b.makeParents(ctx, c, zk.ParentPath(path)); err != nil {
				return err
			}
		case errors.Is(err, zk.ErrNoAuth):
			// Servers look at this right before they look whether it exists.
			if _, found, errLook := c.Exists(ctx, path); errLook == nil && found {
				return nil
			}
			return err
		default:
			return err
		}
	}
}

// awaitTurn returns when no candidate is before this one, with a watch on its
// own znode.
func (b *Backend) awaitTurn(ctx context.Context, s *seat) (*client.Watch, error) {
	for {
		stat, found, own, err := s.session.ExistsW(ctx, s.spot.Load().path)
		if err != nil {
			return nil, err
		}
		if !found {
			own.Close()
			return nil, errGone
		}
		if stat.Version > 0 {
			err = b.hearNomination(ctx, s)
		}
		if err != nil {
			own.Close()
			return nil, err
		}
		first, err := s.awaitFirst(ctx, own)
		if first {
			return own, nil
		}
		own.Close()
		if err != nil {
			return nil, err
		}
	}
}

var errGone = fmt.Errorf("%w: this candidate's znode was deleted", election.ErrLost)

// awaitFirst returns true when nobody is before this candidate, and false
// without an error when the watch on its own znode must be set anew.
func (s *seat) awaitFirst(ctx context.Context, own *client.Watch) (bool, error) {
	for {
		before, err := s.predecessor(ctx)
		if err != nil || before == "" {
			return err == nil, err
		}
		fired, err := s.awaitGone(ctx, before, own)
		if err != nil || fired {
			return false, err
		}
	}
}

// predecessor returns the path of the candidate just before, "" for none. A
// list may be old, but whoever is missing from it before this one is gone for
// good: numbers only grow.
func (s *seat) predecessor(ctx context.Context) (string, error) {
	children, _, err := s.session.Children(ctx, s.parent)
	if err != nil {
		return "", err
	}
	_, mine := zk.SplitPath(s.spot.Load().path)
	queue := candidates(children)
	switch at := slices.Index(queue, mine); at {
	case -1:
		return "", errGone
	case 0:
		return "", nil
	default:
		return zk.JoinPath(s.parent, queue[at-1]), nil
	}
}

// awaitGone waits for the end of the predecessor, and for nothing else (K1).
// It returns true when the watch on the own znode was used up.
func (s *seat) awaitGone(ctx context.Context, path string, own *client.Watch) (bool, error) {
	_, found, watch, err := s.session.ExistsW(ctx, path)
	if err != nil {
		return false, err
	}
	defer watch.Close()
	if !found {
		return false, nil
	}
	select {
	case <-watch.Events(): // changed or gone: look again
		return false, s.session.Err()
	case <-own.Events():
		return true, s.session.Err()
	case <-s.session.Done():
		return false, s.session.Err()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// prove has a quorum decide a transaction that changes nothing and fails
// without the candidate's znode, and then looks whose znode it is (K3, K6).
//
// A read would not do, nor would a sync: a follower that is cut off answers
// reads for some time, and a leader that was deposed answers a sync.
func (b *Backend) prove(ctx context.Context, s *seat, grant election.Grant, more ...client.Operation) (election.Grant, error) {
	spot, sent := s.spot.Load(), b.clock.Now()
	if _, err := s.session.Multi(ctx, append([]client.Operation{client.CheckOp(spot.path, -1)}, more...)...); err != nil {
		return grant, fmt.Errorf("zookeeper: prove %s: %w", spot.path, s.judge(err))
	}
	stat, found, err := s.session.Exists(ctx, spot.path)
	if err != nil {
		return grant, fmt.Errorf("zookeeper: prove %s: %w", spot.path, s.judge(err))
	}
	if !found || zk.SessionID(stat.EphemeralOwner) != s.session.SessionID() || stat.Czxid != spot.czxid {
		return grant, fmt.Errorf("zookeeper: prove %s: %w: it is owned by session 0x%x, created by %v",
			spot.path, election.ErrLost, stat.EphemeralOwner, stat.Czxid)
	}
	grant.Token = election.Token(spot.czxid)
	grant.Lease = s.session.Timeout() * 3 / 4
	proven, _ := s.session.ProvenUntil()
	grant.Sent = min(sent, proven.Add(-grant.Lease))
	return grant, nil
}

// judge marks what surely ends a grant.
func (s *seat) judge(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %w", election.ErrLost, err)
	}
	return mark(err)
}

// Renew proves the grant again. A session is kept alive by any request.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	s := b.seat(grant.Claim.Nonce)
	if s == nil || s.spot.Load() == nil {
		return grant, fmt.Errorf("zookeeper: renew %q: %w: released", grant.Claim.Election, election.ErrLost)
	}
	grant, err := b.prove(ctx, s, grant)
	if err == nil {
		grant.Request = s.request.Load()
		grant.Rival = s.rival(ctx)
	}
	return grant, err
}

// guard tells when the znode or the session goes, until the seat is left. A session
// whose timeout got shorter counts as one that goes: ZooKeeper's leader may end it
// before the deadline of the leadership, which rests on the longer one.
func (s *seat) guard(own *client.Watch, lost chan<- struct{}) {
	granted := s.session.Timeout()
	states := s.session.Subscribe()
	defer states.Close()
	events := states.Events()
	for {
		select {
		case <-s.ctx.Done():
			own.Close()
			return
		case _, more := <-events:
			if s.session.Timeout() < granted {
				own.Close()
				close(lost)
				return
			}
			if more {
				continue
			}
			events = nil
		case <-s.session.Done():
		case <-own.Events():
		}
		own.Close()
		_, found, next, err := s.session.ExistsW(s.ctx, s.spot.Load().path)
		switch {
		case s.ctx.Err() != nil:
			return
		case s.session.Err() != nil, err == nil && !found:
			close(lost)
			return
		case err != nil:
			// Refused for a reason of its own: the renewals find out.
			return
		}
		own = next
	}
}
