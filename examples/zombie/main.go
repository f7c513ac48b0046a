// Command zombie counts in a file while it leads, and shows what happens to a leader
// that was frozen. It never checks whether it still leads, as many programs fail to
// do at the wrong moment, and yet the file refuses its write.
//
//	go run ./cmd/conclave dev                    # in one terminal
//	go run ./examples/zombie /tmp/count          # in two others
//
// Freeze the process that counts with Ctrl-Z. After some seconds, the other one
// continues counting. Then wake the first one with fg: its next write is refused, and
// no number was lost. CONCLAVE_SERVERS names other servers:
// 127.0.0.1:2181,127.0.0.1:2182.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/fence"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers := os.Getenv("CONCLAVE_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: zombie FILE")
		os.Exit(2)
	}
	if err := run(ctx, servers, os.Args[1], 5*time.Second, time.Second, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers, path string, lease, pause time.Duration, out io.Writer) error {
	backend, err := zookeeper.New(servers, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer backend.Close()
	elector, err := election.New(backend, "examples/zombie", election.Options{Lease: lease})
	if err != nil {
		return err
	}
	file := fence.NewFile(path)
	fmt.Fprintln(out, "waiting")
	return elector.Run(ctx, func(leading context.Context, lead election.Leadership) error {
		fmt.Fprintf(out, "leads with token %d\n", lead.Token())
		err := count(ctx, file, lead, pause, out) // not with leading, which would end in time
		if errors.Is(err, fence.ErrStale) {
			fmt.Fprintf(out, "refused: %v\n", err)
			<-leading.Done()
			return nil
		}
		return err
	})
}

// count reads the file once, and then assumes that nobody else writes.
func count(ctx context.Context, file *fence.File, lead election.Leadership, pause time.Duration, out io.Writer) error {
	n := 0
	_, err := file.Update(ctx, lead.Token(), func(old []byte) ([]byte, error) {
		n, _ = strconv.Atoi(string(old)) // an empty file is zero
		return old, nil
	})
	for err == nil && ctx.Err() == nil {
		n++
		_, err = file.Update(ctx, lead.Token(), func([]byte) ([]byte, error) { return []byte(strconv.Itoa(n)), nil })
		if err == nil {
			fmt.Fprintf(out, "counted %d with token %d\n", n, lead.Token())
			time.Sleep(pause)
		}
	}
	return err
}
