package recipes

import (
	"context"
	"errors"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Barrier makes callers wait while its znode exists.
type Barrier struct {
	c    *client.Client
	path string
	o    Options
}

// NewBarrier returns the barrier at a path.
func NewBarrier(c *client.Client, path string, o Options) *Barrier { return &Barrier{c, path, o} }

// Raise puts the barrier up, unless it is up already.
func (b *Barrier) Raise(ctx context.Context) error {
	err := inDir(ctx, b.c, zk.ParentPath(b.path), b.o.ACL, func() error {
		_, _, err := b.c.Create(ctx, b.path, b.o.Data, client.CreateOptions{ACL: b.o.ACL})
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Lower takes down the barrier that it finds, which ends all waits. If an answer is lost, Lower
// looks again, and leaves a barrier alone that was raised in the meantime. It makes two requests: a
// barrier that somebody else lowers and raises between them is lowered too.
func (b *Barrier) Lower(ctx context.Context) error {
	stat, found, err := b.c.Exists(ctx, b.path)
	if err != nil || !found {
		return err
	}
	return removeThis(ctx, b.c, b.path, stat.Czxid)
}

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
