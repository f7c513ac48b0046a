// Command config keeps a configuration up to date. It prints /examples/config
// whenever that changes; it is notified, and does not poll.
//
//	go run ./cmd/conclave dev                                      # in one terminal
//	go run ./examples/config                                       # in another
//	go run ./cmd/conclave create -p /examples/config 'limit=10'    # in a third
//	go run ./cmd/conclave set /examples/config 'limit=20'
//
// An argument names other servers: 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

const path = "/examples/config"

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
	c, err := client.Dial(ctx, servers, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	// The watch comes first: it reports what changes after the first look.
	watch, err := c.Watch(ctx, path, zk.WatchPersistent)
	if err != nil {
		return err
	}
	for {
		data, stat, err := c.Get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			fmt.Fprintln(out, "no configuration")
		case err != nil:
			return err
		default:
			fmt.Fprintf(out, "version %d: %s\n", stat.Version, data)
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
