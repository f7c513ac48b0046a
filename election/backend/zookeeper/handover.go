package zookeeper

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// Waiters yields the candidates behind this one. Candidates of other clients have no id.
func (e *entry) Waiters(ctx context.Context) iter.Seq2[queue.Candidate, error] {
	children, _, err := e.session().Children(ctx, e.parent)
	if err != nil {
		return queue.Each(nil, err)
	}
	return func(yield func(queue.Candidate, error) bool) {
		for _, c := range e.behind(children) {
			if !c.Foreign {
				data, _, err := e.session().Get(ctx, c.Key)
				if errors.Is(err, zk.ErrNoNode) {
					continue
				}
				if err != nil {
					yield(c, err)
					return
				}
				seen := describedIn(data)
				c.ID, c.Metadata = seen.id, seen.metadata
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// Nominate writes the nomination into the znode of the chosen candidate.
func (e *entry) Nominate(ctx context.Context, chosen queue.Candidate) (queue.Nomination, error) {
	_, err := e.session().Set(ctx, chosen.Key, described{chosen.ID, stateNominated, chosen.Metadata}.data(), -1)
	return queue.Nomination{}, unless(err, zk.ErrNoNode, election.ErrNoCandidate)
}

// Answered reads the znode of the chosen candidate.
func (e *entry) Answered(ctx context.Context, chosen queue.Candidate, n queue.Nomination) (queue.Nomination, error) {
	data, stat, watch, err := e.session().GetW(ctx, chosen.Key)
	if err != nil {
		return n, unless(err, zk.ErrNoNode, election.ErrNoCandidate)
	}
	defer watch.Close()
	if seen := nominationIn(data, stat); seen.Version != n.Version {
		return seen, nil
	}
	select {
	case <-watch.Events():
		return queue.Nomination{Round: n.Round}, nil
	case <-e.session().Done():
		return n, e.session().Err()
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}

// Promote does nothing: Leave makes way for the successor.
func (e *entry) Promote(context.Context, queue.Candidate) error { return nil }

// Answer writes the answer into this candidate's znode, unless another nomination has
// replaced this one. It keeps the metadata as it is in the znode now: a leader that has
// dropped it would not understand an answer with metadata. A claim that enters again does
// not answer, because the znode that was nominated is gone.
func (e *entry) Answer(ctx context.Context, n queue.Nomination) error {
	own := e.znode.Load()
	if own == nil {
		return nil
	}
	data, _, err := e.session().Get(ctx, own.path)
	if err == nil {
		answer := describedIn(data)
		answer.id, answer.state = e.claim.ID, stateReady
		if n.State == queue.Failed {
			answer.state = stateNotReady
		}
		_, err = e.session().Set(ctx, own.path, answer.data(), int32(n.Version))
	}
	return unless(unless(err, zk.ErrBadVersion, nil), zk.ErrNoNode, nil)
}

// describeAgain restores the metadata of this leader if its predecessor has dropped it (see
// described). Nothing depends on it.
func (e *entry) describeAgain(ctx context.Context) {
	own := e.znode.Load()
	if len(e.claim.Metadata) == 0 || own == nil {
		return
	}
	data, stat, err := e.session().Get(ctx, own.path)
	if seen := describedIn(data); err == nil && len(seen.metadata) == 0 {
		seen.metadata = e.claim.Metadata
		_, _ = e.session().Set(ctx, own.path, seen.data(), int32(stat.Version))
	}
}

// findRival returns the waiter that outranks the holder. It reads the queue only after a
// change, so many arrivals cost one read for each renewal.
func (e *entry) findRival(ctx context.Context) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue.stands() {
		return e.rival
	}
	children, _, watch, err := e.session().ChildrenW(ctx, e.parent)
	if err != nil {
		return e.rival
	}
	e.queue.set(watch)
	e.rival = ""
	if best, found := queue.Rival(e.behind(children), e.claim.Priority); found {
		data, _, err := e.session().Get(ctx, best.Key)
		if err != nil {
			e.queue.set(nil) // ask again for its id, even if the queue does not change
			return ""
		}
		e.rival = describedIn(data).id
	}
	return e.rival
}

// behind returns the candidates behind this one, in order, without their ids.
func (e *entry) behind(children []string) (waiters []queue.Candidate) {
	names := candidates(children)
	for _, name := range names[slices.Index(names, e.znode.Load().name)+1:] {
		p, ours := priority(name)
		waiters = append(waiters, queue.Candidate{Priority: p, Key: zk.JoinPath(e.parent, name), Foreign: !ours})
	}
	return waiters
}

// Leave deletes this candidate's znode, and those between it and the successor's.
func (e *entry) Leave(ctx context.Context, history *queue.History, successor *queue.Candidate) error {
	own := e.znode.Load()
	if own == nil || e.session().Err() != nil {
		return errGone
	}
	var ops []client.Operation
	if successor != nil {
		ops = e.makeWay(ctx, successor.Key)
	}
	ops = append(ops, client.DeleteOp(own.path, -1))
	if history != nil {
		r := record{Conclave: recordForm, History: history.Tenures}
		ops = append(ops, r.write(e.parent, history.Version))
	}
	_, err := e.session().Multi(ctx, ops...)
	e.left.Store(err == nil)
	return unlessHistory(unless(unless(err, zk.ErrBadVersion, queue.ErrConflict), zk.ErrNoNode, queue.ErrConflict), history)
}

// makeWay returns the operations that remove the candidate between this one and its
// successor from the queue. It returns none if that candidate has gone, or if one in
// between must not be removed.
func (e *entry) makeWay(ctx context.Context, successor string) (ops []client.Operation) {
	children, _, err := e.session().Children(ctx, e.parent)
	if err != nil {
		return nil
	}
	for _, c := range e.behind(children) {
		switch {
		case c.Key == successor:
			return append(ops, client.CheckOp(c.Key, -1))
		case c.Foreign:
			return nil
		}
		ops = append(ops, client.DeleteOp(c.Key, -1))
	}
	return nil
}
