// Command elect works while it leads, and waits while it does not.
//
//	go run ./examples/elect            # in two terminals, then kill one
//
// Without an argument, the election is held on this machine, without a server. With
// an argument, such as 127.0.0.1:2181, it is held on that server.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers := ""
	if len(os.Args) > 1 {
		servers = os.Args[1]
	}
	if err := run(ctx, servers, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers string, out io.Writer) error {
	backend, err := open(servers)
	if err != nil {
		return err
	}
	elector, err := election.New(backend, "examples/elect", election.Options{
		OnEvent: election.LogEvents(slog.Default(), nil), // says why, if no server answers
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "waiting")
	return elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		fmt.Fprintf(out, "leading with token %d\n", lead.Token())
		for ctx.Err() == nil { // it ends before anybody else may lead
			fmt.Fprintf(out, "working, %v are left\n", lead.Remaining().Round(100*time.Millisecond))
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	})
}

func open(servers string) (election.Backend, error) {
	if servers != "" {
		return zookeeper.New(servers, zookeeper.Options{})
	}
	dir, err := file.DefaultDir()
	if err != nil {
		return nil, err
	}
	return file.New(dir)
}
