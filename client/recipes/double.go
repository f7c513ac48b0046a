package recipes

import (
	"context"
	"errors"
	"slices"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// readyName is the znode by which a double barrier tells that all have entered.
const readyName = "ready"

// partyKind is how the znodes of a double barrier's members are named.
const partyKind = "member-"

// DoubleBarrier lets its members begin together and end together, round after
// round.
//
// A round begins with the znode "ready", which is made when enough members are
// there, and ends when the last of them takes it away together with its own
// znode. So nobody can begin the next round while a member of this one is there.
type DoubleBarrier struct {
	line  line
	count int
	place *place
	ready zk.Zxid // by which the znode of this round was created
}

// NewDoubleBarrier is one member's side of the barrier of a directory, for
// count members, each with a DoubleBarrier of its own. It is not safe for
// concurrent use.
func NewDoubleBarrier(c *client.Client, dir string, count int, o Options) *DoubleBarrier {
	return &DoubleBarrier{line: line{c, dir, o}, count: count}
}

// Enter waits until count members have entered. Further members enter at once
// while those are there.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	place, err := b.line.join(ctx, partyKind)
	if err != nil {
		return err
	}
	b.place = place
	if err := b.awaitReady(ctx); err != nil {
		b.place.leave()
		return err
	}
	return nil
}

// awaitReady waits for the beginning of the round, and makes it when enough
// members are there. The member that joins last sees them all.
func (b *DoubleBarrier) awaitReady(ctx context.Context) error {
	for {
		stat, found, w, err := b.line.c.ExistsW(ctx, b.readyPath())
		if err != nil {
			return err
		}
		if found {
			w.Close()
			b.ready = stat.Czxid
			return nil
		}
		members, err := b.members(ctx)
		if err == nil && len(members) >= b.count {
			err = b.begin(ctx) // of which the watch tells
		}
		if err != nil {
			w.Close()
			return err
		}
		if err := wait(ctx, w); err != nil {
			return err
		}
	}
}

// begin makes the znode of the round, however often the answer is lost: nobody
// else may see that all are there.
func (b *DoubleBarrier) begin(ctx context.Context) error {
	for {
		_, _, err := b.line.c.Create(ctx, b.readyPath(), nil, client.CreateOptions{Mode: zk.Ephemeral, ACL: b.line.o.ACL})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
		default:
			return err
		}
	}
}

func (b *DoubleBarrier) readyPath() string { return zk.JoinPath(b.line.dir, readyName) }

// members returns the names of the members, in the order of their coming.
func (b *DoubleBarrier) members(ctx context.Context) ([]string, error) {
	names, _, err := b.line.c.Children(ctx, b.line.dir)
	var members []string
	for _, m := range inOrder(names) {
		members = append(members, m.name)
	}
	return members, err
}

// Leave waits until all have left who were members when it was called. Call it
// after Enter has returned nil.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	err := b.leave(ctx)
	if err != nil {
		b.place.leave()
	}
	return err
}

// leave takes all but the first member out at once. The first one stays until
// they have gone, and ends the round.
func (b *DoubleBarrier) leave(ctx context.Context) error {
	members, err := b.members(ctx)
	if err != nil {
		return err
	}
	first := len(members) > 0 && members[0] == b.place.name
	others := slices.DeleteFunc(members, func(name string) bool { return name == b.place.name })
	if first {
		if err := b.awaitGone(ctx, others); err != nil {
			return err
		}
		return b.endRound(ctx)
	}
	if err := remove(ctx, b.line.c, b.place.path); err != nil {
		return err
	}
	if err := b.awaitGone(ctx, others); err != nil {
		return err
	}
	return b.removeReady(ctx)
}

// awaitGone waits until none of the members is there.
func (b *DoubleBarrier) awaitGone(ctx context.Context, members []string) error {
	for {
		names, _, w, err := b.line.c.ChildrenW(ctx, b.line.dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(members, func(name string) bool { return slices.Contains(names, name) }) {
			w.Close()
			return nil
		}
		if err := wait(ctx, w); err != nil {
			return err
		}
	}
}

// endRound takes the first member out together with the znode of the round. One
// that is gone went with the session of the member that had made it.
func (b *DoubleBarrier) endRound(ctx context.Context) error {
	for {
		_, err := b.line.c.Multi(ctx, client.DeleteOp(b.readyPath(), -1), client.DeleteOp(b.place.path, -1))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return remove(ctx, b.line.c, b.place.path)
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
		default:
			return err
		}
	}
}

// removeReady ends the round in place of a first member that has died.
func (b *DoubleBarrier) removeReady(ctx context.Context) error {
	return removeThis(ctx, b.line.c, b.readyPath(), b.ready)
}
