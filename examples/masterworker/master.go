package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/fence/znode"
	"github.com/conclave-project/conclave/zk"
)

// master waits until it leads, and gives tasks to workers while it does.
func master(ctx context.Context, c *client.Client, servers string, out io.Writer) error {
	backend, err := zookeeper.New(servers, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer backend.Close()
	elector, err := election.New(backend, "examples/masterworker", election.Options{Lease: 5 * time.Second})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "waiting to be master")
	return elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		fmt.Fprintf(out, "master with token %d\n", lead.Token())
		// This comes first: from here on, no earlier master can change anything.
		fenced, err := znode.Claim(ctx, c, guard, lead.Token(), nil)
		if err != nil {
			return err
		}
		return (&giver{c, fenced, out}).serve(ctx)
	})
}

// giver is a master while it leads.
type giver struct {
	client *client.Client
	fenced *znode.Guard
	out    io.Writer
}

// serve looks at everything again whenever something has changed. What it does
// depends only on the znodes, so this is also how a new master recovers.
func (g *giver) serve(ctx context.Context) error {
	watch, err := g.client.Watch(ctx, root, zk.WatchPersistentRecursive)
	if err != nil {
		return err
	}
	defer watch.Close()
	for {
		alive, err := g.takeBack(ctx)
		if err == nil && len(alive) > 0 {
			err = g.give(ctx, alive)
		}
		if err != nil {
			return err
		}
		select {
		case _, ok := <-watch.Events():
			if !ok {
				return watch.Err()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// takeBack takes tasks back from dead workers, and returns how many tasks each living
// worker has.
func (g *giver) takeBack(ctx context.Context) (map[string]int, error) {
	// The order matters: a process that has a place for tasks was a worker at that
	// moment.
	known, _, err := g.client.Children(ctx, assign)
	if err != nil {
		return nil, err
	}
	living, _, err := g.client.Children(ctx, workers)
	if err != nil {
		return nil, err
	}
	load := make(map[string]int)
	for _, worker := range known {
		given, _, err := g.client.Children(ctx, assign+"/"+worker)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(living, worker) {
			load[worker] = len(given)
			continue
		}
		for _, task := range given {
			if err := g.move(ctx, assign+"/"+worker+"/"+task, tasks+"/"+task); err != nil {
				return nil, err
			}
			fmt.Fprintf(g.out, "%s is taken back from %s\n", task, worker)
		}
		if _, err := g.fenced.Multi(ctx, client.DeleteOp(assign+"/"+worker, -1)); err != nil && !overtaken(err) {
			return nil, err
		}
	}
	return load, nil
}

// give gives each open task to the worker with the fewest tasks.
func (g *giver) give(ctx context.Context, load map[string]int) error {
	open, _, err := g.client.Children(ctx, tasks)
	if err != nil {
		return err
	}
	slices.Sort(open)
	for _, task := range open {
		worker := idlest(load)
		if err := g.move(ctx, tasks+"/"+task, assign+"/"+worker+"/"+task); err != nil {
			return err
		}
		load[worker]++
		fmt.Fprintf(g.out, "%s is given to %s\n", task, worker)
	}
	return nil
}

// move moves a znode in one transaction, unless somebody has changed something there
// in the meantime: then there is an event, and serve looks again.
func (g *giver) move(ctx context.Context, source, target string) error {
	data, _, err := g.client.Get(ctx, source)
	if err == nil {
		_, err = g.fenced.Multi(ctx, client.DeleteOp(source, -1), client.CreateOp(target, data, client.CreateOptions{}))
	}
	if overtaken(err) {
		return nil
	}
	return err
}

// overtaken reports whether something is not where it was a moment ago, or may not be
// there because the answer to a write was lost with the connection. The watch reports
// both.
func overtaken(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNotEmpty) ||
		errors.Is(err, zk.ErrConnectionLoss)
}

// idlest returns the worker with the fewest tasks. If there are several, it returns
// the first by name.
func idlest(load map[string]int) string {
	best := ""
	for worker, n := range load {
		if best == "" || n < load[best] || n == load[best] && worker < best {
			best = worker
		}
	}
	return best
}
