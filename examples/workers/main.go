// Command workers is a master and its workers in one program: every process works on
// the tasks that it is given, and the leader gives them out. Start it several times
// and stop some of the processes: the tasks move to the ones that are left.
//
//	go run ./cmd/conclave dev          # in one terminal
//	go run ./examples/workers          # in others
//
// Workers are ephemeral znodes below /examples/workers/members. Below
// /examples/workers/given, the leader writes for each worker which of the twelve
// tasks are its own. It writes through a fence: if it has been replaced in the
// meantime, its writes are refused. An argument names other servers:
// 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/fence/znode"
	"github.com/conclave-project/conclave/zk"
)

const (
	members = "/examples/workers/members"
	given   = "/examples/workers/given"
	guard   = "/examples/workers/fence"
	tasks   = 12
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers := "127.0.0.1:2181"
	if len(os.Args) > 1 {
		servers = os.Args[1]
	}
	if err := run(ctx, servers, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers string, out io.Writer) error {
	fmt.Fprintf(out, "connecting to %s\n", servers)
	c, err := client.Dial(ctx, servers, client.Options{SessionTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, path := range []string{members, given} {
		if _, _, err := c.CreateAll(ctx, path, nil, client.CreateOptions{}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	me, _, err := c.Create(ctx, members+"/w-", nil, client.CreateOptions{Mode: zk.EphemeralSequential})
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(me, members+"/")
	fmt.Fprintln(out, "here as", name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- lead(ctx, c, servers, name, out) }()
	go func() { ended <- work(ctx, c, name, out) }()
	err = <-ended
	cancel()
	<-ended // so that nobody has to wait for the lease
	return err
}

// lead deals out the tasks again whenever the members change, while it leads.
func lead(ctx context.Context, c *client.Client, servers, name string, out io.Writer) error {
	backend, err := zookeeper.New(servers, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer backend.Close()
	elector, err := election.New(backend, "examples/workers", election.Options{ID: name, Lease: 5 * time.Second})
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		fmt.Fprintf(out, "%s deals the tasks out, token %d\n", name, lead.Token())
		// This comes first: from here on, no earlier leader can give out tasks.
		fenced, err := znode.Claim(ctx, c, guard, lead.Token(), nil)
		if err != nil {
			return err
		}
		for {
			names, _, watch, err := c.ChildrenW(ctx, members)
			if err != nil {
				return err
			}
			if err := deal(ctx, c, fenced, names); errors.Is(err, zk.ErrConnectionLoss) {
				watch.Close()
				continue // perhaps it is done: giving the same again changes nothing
			} else if err != nil {
				return err
			}
			select {
			case <-watch.Events():
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// deal gives each worker its share, and takes away what workers had that are gone.
func deal(ctx context.Context, c *client.Client, fenced *znode.Guard, names []string) error {
	slices.Sort(names)
	for i, worker := range names {
		var own []string
		for t := i; t < tasks; t += len(names) {
			own = append(own, fmt.Sprint(t))
		}
		if err := put(ctx, fenced, given+"/"+worker, strings.Join(own, " ")); err != nil {
			return err
		}
	}
	known, _, err := c.Children(ctx, given)
	if err != nil {
		return err
	}
	for _, worker := range known {
		if slices.Contains(names, worker) {
			continue
		}
		if _, err := fenced.Multi(ctx, client.DeleteOp(given+"/"+worker, -1)); err != nil {
			return err
		}
	}
	return nil
}

// work prints what this worker is given.
func work(ctx context.Context, c *client.Client, name string, out io.Writer) error {
	watch, err := c.Watch(ctx, given+"/"+name, zk.WatchPersistent)
	if err != nil {
		return err
	}
	for last := ""; ; {
		data, _, err := c.Get(ctx, given+"/"+name)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if string(data) != last {
			last = string(data)
			fmt.Fprintf(out, "%s works on %s\n", name, last)
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

// put writes a znode, which need not exist yet.
func put(ctx context.Context, fenced *znode.Guard, path, text string) error {
	_, err := fenced.Multi(ctx, client.SetOp(path, []byte(text), -1))
	if errors.Is(err, zk.ErrNoNode) {
		_, err = fenced.Multi(ctx, client.CreateOp(path, []byte(text), client.CreateOptions{}))
	}
	return err
}
