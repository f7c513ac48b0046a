// Command lock holds a lock for a few seconds. Start it several times: the processes
// get the lock in the order in which they asked, each with a higher token.
//
//	go run ./cmd/conclave dev          # in one terminal
//	go run ./examples/lock             # in others
//
// An argument names other servers: 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers := "127.0.0.1:2181"
	if len(os.Args) > 1 {
		servers = os.Args[1]
	}
	if err := run(ctx, servers, 5*time.Second, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dialMax is how long the program waits for a server.
const dialMax = 10 * time.Second

func run(ctx context.Context, servers string, hold time.Duration, out io.Writer) error {
	fmt.Fprintf(out, "connecting to %s\n", servers)
	dial, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	c, err := client.Dial(dial, servers, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintln(out, "waiting for the lock")
	held, err := recipes.NewLock(c, "/examples/lock", recipes.Options{}).Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "held with token %d: the resource that is acted upon can refuse a lower one\n", held.Token())
	select {
	case <-time.After(hold):
	case <-held.Lost():
		return fmt.Errorf("the session is gone, and the lock with it")
	case <-ctx.Done():
	}
	return held.Release(context.WithoutCancel(ctx))
}
