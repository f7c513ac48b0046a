package loadgen

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// fillInFlight is how many creates are in flight during Fill.
const fillInFlight = 1024

// connect dials the first server, and returns the options with their defaults.
func connect(ctx context.Context, o Options) (*conn, Options, error) {
	if err := o.Validate(); err != nil {
		return nil, o, err
	}
	o = o.withDefaults()
	c, err := o.dial(ctx, o.Addrs[0])
	return c, o, err
}

// ensure creates a persistent znode unless it exists.
func (c *conn) ensure(path string) error {
	_, err := c.call(&zk.Request{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()})
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("loadgen: %w", err)
	}
	return nil
}

// Fill creates the znodes for Get, Set and Mix: Options.Znodes of Options.DataBytes each,
// below Options.Prefix. Existing ones are left unchanged.
func Fill(ctx context.Context, o Options) error {
	c, o, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer c.end()
	if err := c.ensure(o.Prefix); err != nil {
		return err
	}
	create := newTemplate(zk.Request{Op: zk.OpCreate, Path: dataPath(o.Prefix), Data: payload(o.DataBytes), ACL: zk.OpenACL()})
	n := 0
	more := func(free int) int { return min(free, o.Znodes-n) }
	w, err := c.pump(fillInFlight, more, func(b []byte, xid zk.Xid) []byte {
		n++
		return create.append(b, xid, n-1)
	})
	if err == nil && w.code != zk.OK && w.code != zk.ErrNodeExists {
		err = w.code
	}
	if err != nil {
		return fmt.Errorf("loadgen: fill: %w", err)
	}
	return nil
}

// Tree creates n znodes with data, a thousand below each parent, with one create each, so
// the server takes snapshots as in production. It returns the path of the last one. The
// znodes must not exist yet.
func Tree(ctx context.Context, o Options, n int) (string, error) {
	c, o, err := connect(ctx, o)
	if err != nil {
		return "", err
	}
	defer c.end()
	if err := c.ensure(o.Prefix); err != nil {
		return "", err
	}
	request := zk.Request{Op: zk.OpCreate, ACL: zk.OpenACL()}
	data, made, parents := payload(o.DataBytes), 0, 0
	more := func(free int) int { return min(free, n+(n+treeWidth-1)/treeWidth-made-parents) }
	w, err := c.pump(fillInFlight, more, func(b []byte, xid zk.Xid) []byte {
		request.Xid, request.Path, request.Data = xid, treePath(o.Prefix, made), data
		if made == parents*treeWidth {
			request.Path, request.Data = zk.ParentPath(request.Path), nil
			parents++
		} else {
			made++
		}
		return wire.AppendRequest(b, &request)
	})
	if err == nil && w.code != zk.OK {
		err = w.code
	}
	if err != nil {
		return "", fmt.Errorf("loadgen: tree: %w", err)
	}
	return treePath(o.Prefix, n-1), nil
}

// treeWidth is the number of children of a parent in Tree.
const treeWidth = 1000

func treePath(prefix string, n int) string {
	return fmt.Sprintf("%s/t%06d/n%06d", prefix, n/treeWidth, n%treeWidth)
}

// Answers asks the first server for the data of one znode, in a new session, and returns
// nil when it has answered.
func Answers(ctx context.Context, o Options, path string) error {
	c, _, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.call(&zk.Request{Op: zk.OpGetData, Path: path}); err != nil {
		return fmt.Errorf("loadgen: %w", err)
	}
	return nil
}

// Clean deletes Options.Prefix and everything below it.
func Clean(ctx context.Context, o Options) error {
	c, o, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer c.end()
	return c.remove(o.Prefix)
}

// remove deletes a znode and everything below it, children first.
func (c *conn) remove(path string) error {
	result, err := c.call(&zk.Request{Op: zk.OpGetChildren2, Path: path})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return fmt.Errorf("loadgen: clean: %w", err)
	}
	var inner []string
	i := 0
	names := result.Children
	more := func(free int) int { return min(free, len(names)-i) }
	// First delete all children, pipelined; those with children of their own are refused.
	_, err = c.pump(fillInFlight, more, func(b []byte, xid zk.Xid) []byte {
		i++
		return wire.AppendRequest(b, &zk.Request{Xid: xid, Op: zk.OpDelete, Path: zk.JoinPath(path, names[i-1]), Version: -1})
	})
	if err != nil {
		return fmt.Errorf("loadgen: clean: %w", err)
	}
	if result, err = c.call(&zk.Request{Op: zk.OpGetChildren2, Path: path}); err != nil {
		return fmt.Errorf("loadgen: clean: %w", err)
	}
	inner = result.Children
	for _, name := range inner {
		if err := c.remove(zk.JoinPath(path, name)); err != nil {
			return err
		}
	}
	if _, err := c.call(&zk.Request{Op: zk.OpDelete, Path: path, Version: -1}); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("loadgen: clean: %w", err)
	}
	return nil
}
