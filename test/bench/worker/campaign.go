package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// An entrant is one candidate.
type entrant struct {
	election, id string
	lease        time.Duration
	led          func()
}

// A way is a library that lets candidates campaign. campaign returns when the context has
// ended, or on an error that it cannot handle.
type way interface {
	campaign(ctx context.Context, e entrant) error
	close() error
}

// ways open a client of a store, which the candidates share.
var ways = map[string]func(ctx context.Context, url string) (way, error){
	"conclave":  openConclave,
	"etcd":      openEtcd,
	"consul":    openConsul,
	"client-go": openClientGo,
}

// campaign runs the process's candidates for ever. It prints "led NAME" for every
// leadership. For each line of input it collects its garbage and prints "calm GOROUTINES".
func campaign(ctx context.Context, args []string) error {
	flag := flag.NewFlagSet("campaign", flag.ExitOnError)
	name := flag.String("way", "conclave", "by which library")
	url := flag.String("url", "", "of the store")
	elections := flag.Int("elections", 1, "how many elections")
	candidates := flag.Int("candidates", 1, "how many candidates each of them has")
	clients := flag.Int("clients", 1, "how many clients of the store the candidates share")
	id := flag.String("id", "c", "what the names of the candidates begin with")
	lease := flag.Duration("lease", 10*time.Second, "the lease")
	if err := flag.Parse(args); err != nil {
		return err
	}
	open, known := ways[*name]
	if !known {
		return fmt.Errorf("no way %q", *name)
	}
	opened := make([]way, *clients)
	for i := range opened {
		var err error
		if opened[i], err = open(ctx, *url); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	out := &lines{to: bufio.NewWriter(os.Stdout)}
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			runtime.GC()
			debug.FreeOSMemory()
			out.print("calm %d", runtime.NumGoroutine())
		}
		stop(nil)
	}()
	var group sync.WaitGroup
	for n := range *elections * *candidates {
		e := entrant{election: fmt.Sprintf("bench-%d", n%*elections), id: fmt.Sprint(*id, n/(*elections)), lease: *lease}
		e.led = func() { out.print("led %s", e.election) }
		group.Go(func() {
			if err := opened[n%*clients].campaign(ctx, e); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	}
	group.Wait()
	for _, w := range opened {
		_ = w.close() // the process is ending
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lines prints lines, one at a time.
type lines struct {
	mu sync.Mutex
	to *bufio.Writer
}

func (l *lines) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, format+"\n", args...)
	_ = l.to.Flush() // nobody reads them any longer: this process is ending, too
}
