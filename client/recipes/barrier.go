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
	err := inDir(ctx, b.c, zk.ParentPath(b.path), b.o.ACL, func() error {
		_, _, err := b.c.Create(ctx, b.path, b.o.Data, client.CreateOptions{ACL: b.o.ACL})
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Lower takes the barrier down that it finds, and lets everybody go. When an answer
// is lost it looks again, and leaves alone one that was raised since. It is two
// requests: one that somebody else lowers and raises between them is lowered, too.
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
