package recipes

import (
	"context"
	"errors"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Barrier holds everybody back while its znode exists.
type Barrier struct {
	c    *client.Client
	path string
	o    Options
}

// NewBarrier is the barrier of a path.
func NewBarrier(c *client.Client, path string, o Options) *Barrier { return &Barrier{c, path, o} }

// Raise puts the barrier up, if it is not.
func (b *Barrier) Raise(ctx context.Context) error {
	if err := makeDir(ctx, b.c, zk.ParentPath(b.path), b.o.ACL); err != nil {
		return err
	}
	_, _, err := b.c.Create(ctx, b.path, b.o.Data, client.CreateOptions{ACL: b.o.ACL})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Lower takes the barrier down and lets everybody go.
func (b *Barrier) Lower(ctx context.Context) error { return remove(ctx, b.c, b.path) }

// Wait waits until the barrier is down.
func (b *Barrier) Wait(ctx context.Context) error {
	for {
		_, _, w, err := b.c.GetW(ctx, b.path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case err != nil:
			return err
		}
		if err := wait(ctx, w); err != nil {
			return err
		}
	}
}

// readyName is the znode by which a double barrier tells that all have entered.
const readyName = "ready"

// partyKind is how the znodes of a double barrier's members are named.
const partyKind = "member-"

// DoubleBarrier lets its members begin together and end together.
type DoubleBarrier struct {
	line  line
	count int
	place *place
}

// NewDoubleBarrier is one member's side of the barrier of a directory, for
// count members, each with a DoubleBarrier of its own. It is not safe for
// concurrent use.
func NewDoubleBarrier(c *client.Client, dir string, count int, o Options) *DoubleBarrier {
	return &DoubleBarrier{line: line{c, dir, o}, count: count}
}

// Enter waits until count members have entered.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	if err := makeDir(ctx, b.line.c, b.line.dir, b.line.o.ACL); err != nil {
		return err
	}
	ready := zk.JoinPath(b.line.dir, readyName)
	_, found, w, err := b.line.c.ExistsW(ctx, ready)
	if err != nil {
		return err
	}
	if b.place, err = b.line.join(ctx, partyKind); err != nil {
		w.Close()
		return err
	}
	present, err := b.members(ctx)
	if err == nil && present >= b.count && !found {
		_, _, err = b.line.c.Create(ctx, ready, nil, client.CreateOptions{Mode: zk.Ephemeral, ACL: b.line.o.ACL})
		if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil {
			err = nil // the watch tells whether it is there
		}
	}
	if err == nil && !found {
		err = wait(ctx, w)
	} else {
		w.Close()
	}
	if err != nil {
		b.place.leave()
	}
	return err
}

func (b *DoubleBarrier) members(ctx context.Context) (int, error) {
	names, _, err := b.line.c.Children(ctx, b.line.dir)
	return len(inOrder(names)), err
}

// Leave waits until all members have left.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	if err := remove(ctx, b.line.c, b.place.path); err != nil {
		b.place.leave()
		return err
	}
	for {
		names, _, w, err := b.line.c.ChildrenW(ctx, b.line.dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(inOrder(names)) == 0 {
			w.Close()
			return remove(ctx, b.line.c, zk.JoinPath(b.line.dir, readyName))
		}
		if err := wait(ctx, w); err != nil {
			return err
		}
	}
}
