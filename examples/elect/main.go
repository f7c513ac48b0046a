// Command elect works while it leads, and waits in line while it does not.
//
//	go run ./examples/elect            # in two terminals, then kill one
//
// Without an argument the election is held on this machine, with no server. With
// one, such as 127.0.0.1:2181, it is held there.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	backend, err := open()
	if err != nil {
		return err
	}
	elector, err := election.New(backend, "examples/elect", election.Options{Forever: true})
	if err != nil {
		return err
	}
	fmt.Println("in line")
	return elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		fmt.Printf("leading with token %d\n", lead.Token())
		for ctx.Err() == nil { // it ends before anybody else may lead
			fmt.Printf("working, %v are left\n", lead.Remaining().Round(100*time.Millisecond))
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	})
}

func open() (election.Backend, error) {
	if len(os.Args) > 1 {
		return zookeeper.New(os.Args[1], zookeeper.Options{})
	}
	dir, err := file.DefaultDir()
	if err != nil {
		return nil, err
	}
	return file.New(dir)
}
