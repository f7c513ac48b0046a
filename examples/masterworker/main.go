// Command masterworker is the worked example of the ZooKeeper book (Junqueira
// and Reed, 2013): clients submit tasks, a master gives them to workers, and
// nothing is lost when masters and workers die.
//
//	go run ./cmd/conclave dev                    # in one terminal
//	go run ./examples/masterworker master        # in others, any number of each
//	go run ./examples/masterworker worker
//	go run ./examples/masterworker client "wash the dishes" "sweep the floor"
//
// Everything that is known is in znodes below /examples/masterworker, so a new master needs nothing
// from the old one:
//
//	tasks/task-0000000007            submitted, and given to nobody
//	workers/w-8c1f                   ephemeral: exists as long as the worker does
//	assign/w-8c1f/task-0000000007    given to this worker
//	status/task-0000000007           done, with its result
//	fence                            the token of the current master
//
// A task moves from one place to the next in one multi, so it is always in exactly one of them. The
// master's multis check the fence: a master that was frozen, and wakes up beside its successor, can
// change nothing any more.
//
// CONCLAVE_SERVERS names other servers: 127.0.0.1:2181,127.0.0.1:2182.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

const (
	root    = "/examples/masterworker"
	tasks   = root + "/tasks"
	workers = root + "/workers"
	assign  = root + "/assign"
	status  = root + "/status"
	guard   = root + "/fence"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers := os.Getenv("CONCLAVE_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	if err := run(ctx, servers, os.Args[1:], 5*time.Second, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run plays a role. A worker takes the given time for a task.
func run(ctx context.Context, servers string, args []string, takes time.Duration, out io.Writer) error {
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	play := map[string]func(*client.Client) error{
		"master": func(c *client.Client) error { return master(ctx, c, servers, out) },
		"worker": func(c *client.Client) error { return worker(ctx, c, takes, out) },
		"client": func(c *client.Client) error { return submit(ctx, c, args[1:], out) },
	}[role]
	if play == nil {
		return fmt.Errorf("role %q: say master, worker, or client with its tasks", role)
	}
	fmt.Fprintf(out, "connecting to %s\n", servers)
	c, err := client.Dial(ctx, servers, client.Options{SessionTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, path := range []string{"/examples", root, tasks, workers, assign, status} {
		err := again(ctx, func() error {
			_, _, err := c.Create(ctx, path, nil, client.CreateOptions{})
			return err
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return play(c)
}

// again repeats an operation until its answer is not lost with the connection, so the operation may
// be done twice.
func again(ctx context.Context, do func() error) error {
	for {
		if err := do(); !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil {
			return err
		}
	}
}

// submit submits tasks and prints their results.
func submit(ctx context.Context, c *client.Client, texts []string, out io.Writer) error {
	names := make([]string, len(texts))
	for i, text := range texts {
		path, _, err := c.Create(ctx, tasks+"/task-", []byte(text), client.CreateOptions{Mode: zk.PersistentSequential})
		if err != nil {
			return err
		}
		_, names[i] = zk.SplitPath(path)
		fmt.Fprintf(out, "submitted %s: %s\n", names[i], text)
	}
	for _, name := range names {
		result, err := await(ctx, c, status+"/"+name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", name, result)
		err = again(ctx, func() error { return c.Delete(ctx, status+"/"+name, -1) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // nobody else deletes it
			return err
		}
	}
	return nil
}

// await returns the data of a znode as soon as it exists.
func await(ctx context.Context, c *client.Client, path string) ([]byte, error) {
	for {
		_, exists, watch, err := c.ExistsW(ctx, path)
		if err != nil {
			return nil, err
		}
		if exists {
			watch.Close()
			data, _, err := c.Get(ctx, path)
			return data, err
		}
		select {
		case <-watch.Events():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
