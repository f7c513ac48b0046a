// Command lock holds a lock for a few seconds. Start it several times: they come
// in the order in which they asked, each with a larger token.
//
//	go run ./cmd/conclave dev          # in one terminal
//	go run ./examples/lock             # in others
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("waiting for the lock")
	held, err := recipes.NewLock(c, "/examples/lock", recipes.Options{}).Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("held with token %d: whoever is acted upon can refuse a smaller one\n", held.Token())
	select {
	case <-time.After(5 * time.Second):
	case <-held.Lost():
		return fmt.Errorf("the session is gone, and the lock with it")
	case <-ctx.Done():
	}
	return held.Release(context.WithoutCancel(ctx))
}
