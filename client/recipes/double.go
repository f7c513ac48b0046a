package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// partyKind is the prefix of the names of a double barrier's members.
const partyKind = "member-"

// DoubleBarrier lets its members begin together and end together, round after
// round.
//
// The data of the directory names the members of the current round. A round begins when a member
// sees that enough members are there and writes their names. It is over when the znodes of all of
// them are gone. A member that sees its own name has entered, even if the member that wrote it
// has died since. All writes are conditional on the version of the directory.
type DoubleBarrier struct {
	line  line
	count int
	place *place
}

// round is the data in the directory of a double barrier.
type round struct {
	Members []string `json:"round"` // names of the members' znodes
	version int32    // of the directory when it was read
}

// NewDoubleBarrier returns one member's side of the barrier of a directory, for count members,
// each with a DoubleBarrier of its own. The directory must be used for nothing else, and members
// need permission to write it. A DoubleBarrier is not safe for concurrent use.
func NewDoubleBarrier(c *client.Client, dir string, count int, o Options) *DoubleBarrier {
	return &DoubleBarrier{line: line{c, dir, o}, count: count}
}

// Enter waits until count members have entered. Further members enter at once while any of these
// is there.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	place, err := b.line.join(ctx, partyKind)
	if err != nil {
		return err
	}
	b.place = place
	if err := b.awaitRound(ctx); err != nil {
		b.place.leave()
		return err
	}
	return nil
}

// awaitRound waits until this member belongs to a round. The member that joins last sees
// all the others, and begins the round.
func (b *DoubleBarrier) awaitRound(ctx context.Context) error {
	for {
		r, w, err := b.watchRound(ctx)
		if err != nil {
			return err
		}
		if slices.Contains(r.Members, b.place.name) {
			w.Close()
			return nil
		}
		err = b.takePart(ctx, r)
		if errors.Is(err, zk.ErrNoNode) { // a member has left in the meantime
			w.Close()
			continue
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

// watchRound reads the current round and sets a watch on it.
func (b *DoubleBarrier) watchRound(ctx context.Context) (round, *client.Watch, error) {
	data, stat, w, err := b.line.c.GetW(ctx, b.line.dir)
	if err != nil {
		return round{}, nil, err
	}
	r, err := b.parseRound(data, stat)
	if err != nil {
		w.Close()
	}
	return r, w, err
}

func (b *DoubleBarrier) parseRound(data []byte, stat zk.Stat) (round, error) {
	r := round{version: stat.Version}
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("recipes: %s has data that is not a double barrier's; use a directory of its own: %w", b.line.dir, err)
	}
	return r, nil
}

// takePart adds this member to the current round, or begins a round if enough members are
// there. The watch on the directory reports the result.
func (b *DoubleBarrier) takePart(ctx context.Context, r round) error {
	members, err := b.members(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(members, b.place.name) {
		return fmt.Errorf("%w: %s", ErrGone, b.place.path)
	}
	gone := func(name string) bool { return !slices.Contains(members, name) }
	present := slices.DeleteFunc(r.Members, gone)
	switch {
	case len(present) > 0:
		r.Members = append(present, b.place.name)
		return b.writeRound(ctx, r, present[len(present)-1])
	case len(members) >= b.count:
		r.Members = members
		return b.writeRound(ctx, r, b.place.name)
	}
	return nil
}

// writeRound writes a round, unless another member has written one since it was read, or
// the member is gone. The member's znode keeps the round from being over. After a lost
// connection the same round is written again; no other member can have the same version.
func (b *DoubleBarrier) writeRound(ctx context.Context, r round, member string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	there := client.CheckOp(zk.JoinPath(b.line.dir, member), -1)
	for {
		_, err := b.line.c.Multi(ctx, there, client.SetOp(b.line.dir, data, r.version))
		switch {
		case errors.Is(err, zk.ErrBadVersion):
			return nil
		case mayPass(ctx, err):
		default:
			return err
		}
	}
}

// members returns the names of the members, in the order in which they joined.
func (b *DoubleBarrier) members(ctx context.Context) ([]string, error) {
	names, _, err := b.line.c.Children(ctx, b.line.dir)
	var members []string
	for _, m := range inOrder(names) {
		members = append(members, m.name)
	}
	return members, err
}

// Leave waits until all members have left that belonged to the round when it was called. Call it
// after Enter has returned nil; before the first Enter it is an error.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	if b.place == nil {
		return fmt.Errorf("recipes: leave double barrier %s: call Enter first", b.line.dir)
	}
	data, stat, err := b.line.c.Get(ctx, b.line.dir)
	if err != nil {
		b.place.leave()
		return err
	}
	r, err := b.parseRound(data, stat)
	if err == nil {
		err = remove(ctx, b.line.c, b.place.path)
	}
	if err != nil {
		b.place.leave()
		return err
	}
	return b.awaitGone(ctx, r.Members)
}

// awaitGone waits until none of the members is left.
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
