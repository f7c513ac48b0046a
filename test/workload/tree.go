package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// A Znode is what a client can see of a znode.
type Znode struct {
	Data []byte
	Stat zk.Stat
}

// A Tree contains znodes by path.
type Tree map[string]Znode

// treeTimeout limits the reading from one server.
const treeTimeout = time.Minute

// Trees reads the tree below top from each server, after a sync on each. No client should
// write meanwhile. The reading sessions leave no trace below top.
func Trees(ctx context.Context, addrs []string, top string, o client.Options) (map[string]Tree, error) {
	trees := map[string]Tree{}
	for _, addr := range addrs {
		t, err := readTree(ctx, addr, top, o)
		if err != nil {
			return nil, fmt.Errorf("workload: read the tree of %s: %w", addr, err)
		}
		trees[addr] = t
	}
	return trees, nil
}

func readTree(ctx context.Context, addr, top string, o client.Options) (Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	o.ReplyBytesMax = 64 << 20
	c, err := client.Dial(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Sync(ctx, top); err != nil {
		return nil, err
	}
	t := Tree{}
	return t, t.read(ctx, c, top)
}

// readAhead is how many requests are in flight while a tree is read.
const readAhead = 512

// read adds a znode and everything below it, level by level.
func (t Tree) read(ctx context.Context, c *client.Client, top string) error {
	for level := []string{top}; len(level) > 0; {
		var next []string
		for len(level) > 0 {
			part := level[:min(len(level), readAhead)]
			level = level[len(part):]
			below, err := t.readSome(ctx, c, part)
			if err != nil {
				return err
			}
			next = append(next, below...)
		}
		level = next
	}
	return nil
}

// readSome reads some znodes concurrently and returns the paths of their children.
func (t Tree) readSome(ctx context.Context, c *client.Client, paths []string) ([]string, error) {
	data, err := submit(ctx, c, zk.OpGetData, paths)
	if err != nil {
		return nil, err
	}
	var parents, below []string
	for i, path := range paths {
		r, err := data[i].Wait(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			continue // an ephemeral that was just deleted
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		t[path] = Znode{r.Data, r.Stat}
		if r.Stat.NumChildren > 0 {
			parents = append(parents, path)
		}
	}
	children, err := submit(ctx, c, zk.OpGetChildren2, parents)
	if err != nil {
		return nil, err
	}
	for i, path := range parents {
		r, err := children[i].Wait(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, name := range r.Children {
			if path == "/" {
				path = ""
			}
			below = append(below, path+"/"+name)
		}
	}
	return below, nil
}

func submit(ctx context.Context, c *client.Client, op zk.Op, paths []string) ([]*client.Future, error) {
	futures := make([]*client.Future, len(paths))
	for i, path := range paths {
		var err error
		if futures[i], err = c.Submit(ctx, zk.Request{Op: op, Path: path}); err != nil {
			return nil, err
		}
	}
	return futures, nil
}

// Differences describes where two servers' trees differ, stats included.
func Differences(oneName, otherName string, one, other Tree) []string {
	var differ []string
	for path, z := range one {
		y, ok := other[path]
		switch {
		case !ok:
			differ = append(differ, path+" (missing in "+otherName+")")
		case z.Stat != y.Stat:
			differ = append(differ, fmt.Sprintf("%s (%+v, %+v)", path, z.Stat, y.Stat))
		case !bytes.Equal(z.Data, y.Data):
			differ = append(differ, path+" (data)")
		}
	}
	for path := range other {
		if _, ok := one[path]; !ok {
			differ = append(differ, path+" (missing in "+oneName+")")
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s and %s differ in %d znodes: %s", oneName, otherName, len(differ), some(differ))}
}
