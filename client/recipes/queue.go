package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// itemKind is the prefix of the names of a queue's items.
const itemKind = "item-"

// Queue hands out items in the order in which they were put in, each to one taker.
//
// A taker lists all items, at 59 bytes for the name of each. With the default of
// client.Options.ReplyBytesMax, 16 MiB, Take fails with client.ErrReplyTooLong beyond some
// 284,000 items, until a taker with a larger one has made the queue shorter. Put goes on.
type Queue struct{ line line }

// NewQueue returns the queue of a directory, which is created when it is needed.
func NewQueue(c *client.Client, dir string, o Options) *Queue { return &Queue{line{c, dir, o}} }

// Put adds an item, once. After an error whose outcome is client.Unknown, it is open whether the
// item was in the queue: the answer was lost, and the item is not there now, because it never
// arrived or was taken already.
func (q *Queue) Put(ctx context.Context, item []byte) error {
	o := client.CreateOptions{Mode: zk.PersistentSequential, ACL: q.line.o.ACL, Shared: true}
	return inDir(ctx, q.line.c, q.line.dir, q.line.o.ACL, func() error {
		_, _, _, err := q.line.c.CreateProtected(ctx, zk.JoinPath(q.line.dir, itemKind), item, o)
		return err
	})
}

// Take waits for an item and takes it out. An error whose outcome is client.Unknown comes with
// the item, whose delete was sent and not answered: the item may have been taken out, by this
// taker or another one, or it may still be in the queue, to be taken again. A taker that must
// process an item exactly once has to record, in one transaction with the delete, that it is
// done.
//
// An item that this taker cannot take out, because it may not read it, because it is longer than
// the client's ReplyBytesMax, or because something lies below it, is left to others and to
// operators. The error that names it is returned only while no item after it can be taken.
func (q *Queue) Take(ctx context.Context) ([]byte, error) {
	for {
		names, w, err := q.items(ctx)
		if err != nil {
			return nil, err
		}
		var stuck error
		for _, m := range inOrder(names) {
			item, taken, err := q.take(ctx, zk.JoinPath(q.line.dir, m.name))
			if errors.Is(err, errStuck) {
				stuck = cmp.Or(stuck, err)
				continue
			}
			if taken || err != nil {
				w.Close()
				return item, err
			}
		}
		if stuck != nil {
			w.Close()
			return nil, stuck
		}
		if err := wait(ctx, w); err != nil {
			return nil, err
		}
	}
}

// errStuck marks the error of an item that this taker cannot take out, although it may be
// able to take later ones. The permission to delete is that of the directory, so a missing
// one is not marked.
var errStuck = errors.New("recipes: an item of the queue cannot be taken out")

// items returns the names of the items, and a watch on the list.
func (q *Queue) items(ctx context.Context) ([]string, *client.Watch, error) {
	var names []string
	var w *client.Watch
	err := inDir(ctx, q.line.c, q.line.dir, q.line.o.ACL, func() (err error) {
		names, _, w, err = q.line.c.ChildrenW(ctx, q.line.dir)
		return err
	})
	return names, w, err
}

// take takes one item, unless another taker has taken it. An item that was rewritten since
// it was read is read again.
func (q *Queue) take(ctx context.Context, path string) (item []byte, taken bool, err error) {
	for {
		item, taken, err = q.takeAsRead(ctx, path)
		if !errors.Is(err, zk.ErrBadVersion) {
			return item, taken, err
		}
	}
}

// takeAsRead takes one item if it is unchanged since it was read.
func (q *Queue) takeAsRead(ctx context.Context, path string) (item []byte, taken bool, err error) {
	item, stat, err := q.line.c.Get(ctx, path)
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, client.ErrReplyTooLong) {
		return nil, false, fmt.Errorf("%w: %w", errStuck, err)
	}
	if err == nil {
		err = q.line.c.Delete(ctx, path, stat.Version)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, false, nil
	}
	if errors.Is(err, zk.ErrNotEmpty) {
		return nil, false, fmt.Errorf("%w: %w", errStuck, err)
	}
	if err != nil && client.OutcomeOf(err) == client.NotApplied {
		return nil, false, err
	}
	return item, err == nil, err
}

// wait waits for a one-shot watch.
func wait(ctx context.Context, w *client.Watch) error {
	defer w.Close()
	select {
	case _, ok := <-w.Events():
		if !ok {
			return w.Err()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
