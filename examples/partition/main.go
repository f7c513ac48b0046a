// Command partition owns some of twelve partitions. Together, all running processes
// own each partition once, evenly divided. Start it several times, and stop some of
// them.
//
//	go run ./cmd/conclave dev          # in one terminal
//	go run ./examples/partition        # in others
//
// When interrupted, it hands its partitions over before the process ends. An argument
// names other servers: 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/partition"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers, id := "127.0.0.1:2181", fmt.Sprint("member-", os.Getpid())
	if len(os.Args) > 1 {
		servers = os.Args[1]
	}
	if err := run(ctx, servers, id, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers, id string, out io.Writer) error {
	backend, err := zookeeper.New(servers, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer backend.Close()
	member, err := partition.New(backend, "examples/partition", partition.Options{
		Partitions: 12, MaxMoves: 2,
		OnView: func(v partition.View) {
			fmt.Fprintf(out, "%s sees %d members: %s\n", id, len(v.Members), strings.Join(v.Owners, " "))
		},
		Election: election.Options{
			ID: id, Lease: 5 * time.Second,
			OnEvent: election.LogEvents(slog.Default(), nil), // says why, if no server answers
		},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, member.Leave)()
	return member.Run(context.WithoutCancel(ctx), func(ctx context.Context, p int, lead election.Leadership) error {
		fmt.Fprintf(out, "%s owns %d with token %d\n", id, p, lead.Token())
		<-ctx.Done() // the work; pass the token along with everything that it writes
		fmt.Fprintf(out, "%s releases %d\n", id, p)
		return nil
	})
}
