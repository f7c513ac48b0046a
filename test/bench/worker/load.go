package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
)

// keys is the number of keys that are read and written.
const keys = 10_000

// A store is a connection to a store, with the operations that both kinds of stores have.
// Keys are numbered.
type store interface {
	get(ctx context.Context, key int) error
	// getLatest is a read that sees every write answered before.
	getLatest(ctx context.Context, key int) error
	set(ctx context.Context, key int, data []byte) error
	create(ctx context.Context, name string, data []byte) error
	// hold creates a key that is bound to this connection's lease, and deletes it.
	hold(ctx context.Context, name string, data []byte) error
	// lease begins a lease with a key, and ends it.
	lease(ctx context.Context, name string, data []byte) error
	// watch calls told for each change of a key.
	watch(ctx context.Context, key int, told func()) error
	close()
}

// works are the operations that are measured.
var works = map[string]func(ctx context.Context, s store, n int, data []byte) error{
	"get":        func(ctx context.Context, s store, n int, _ []byte) error { return s.get(ctx, n%keys) },
	"get-latest": func(ctx context.Context, s store, n int, _ []byte) error { return s.getLatest(ctx, n%keys) },
	"set":        func(ctx context.Context, s store, n int, data []byte) error { return s.set(ctx, n%keys, data) },
	"create": func(ctx context.Context, s store, n int, data []byte) error {
		return s.create(ctx, fmt.Sprintf("c%d-%d", os.Getpid(), n), data)
	},
	"ephemeral": func(ctx context.Context, s store, n int, data []byte) error {
		return s.hold(ctx, fmt.Sprintf("e%d-%d", os.Getpid(), n), data)
	},
	"lease": func(ctx context.Context, s store, n int, data []byte) error {
		return s.lease(ctx, fmt.Sprintf("l%d-%d", os.Getpid(), n), data)
	},
}

// measured is the result that load prints, as JSON.
type measured struct {
	Operations int64
	Seconds    float64
	P50, P99   time.Duration
}

// load runs one work on a store; each connection has the given number of requests in
// flight. The work "fill" creates the keys. "watch" has watchers on one key; its operation
// is a write of which all of them must be notified before the next one. load prints "begin"
// as its first line, and waits for a line of input before the work.
func load(ctx context.Context, args []string) error {
	flag := flag.NewFlagSet("load", flag.ExitOnError)
	url := flag.String("url", "", "of the servers: etcd:// or zookeeper://")
	name := flag.String("work", "get", "what to do")
	connections := flag.Int("connections", 8, "connections")
	inFlight := flag.Int("in-flight", 1, "operations in flight on each")
	watchers := flag.Int("watchers", 100, "watchers, shared among the connections")
	dataBytes := flag.Int("data-bytes", 100, "data of each key")
	lasts := flag.Duration("for", 3*time.Second, "how long")
	if err := flag.Parse(args); err != nil {
		return err
	}
	stores, err := connect(ctx, *url, *connections)
	if err != nil {
		return err
	}
	data := []byte(strings.Repeat("x", *dataBytes))
	var m measured
	switch work := works[*name]; {
	case *name == "fill":
		return fill(ctx, stores, data)
	case *name == "watch":
		m, err = watched(ctx, stores, *watchers, data, *lasts)
	case work == nil:
		return fmt.Errorf("no work %q", *name)
	default:
		m, err = worked(stores, *inFlight, *lasts, func(s store, n int) error { return work(ctx, s, n, data) })
	}
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(m)
	for _, s := range stores {
		s.close()
	}
	return err
}

// connect opens connections, to the servers in turn.
func connect(ctx context.Context, url string, connections int) ([]store, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	addrs := strings.Split(rest, ",")
	open := map[string]func(context.Context, string) (store, error){"etcd": dialEtcd, "zookeeper": dialZooKeeper}[scheme]
	if open == nil {
		return nil, fmt.Errorf("no store %q", scheme)
	}
	stores := make([]store, connections)
	for i := range stores {
		var err error
		if stores[i], err = open(ctx, addrs[i%len(addrs)]); err != nil {
			return nil, err
		}
	}
	return stores, nil
}

// fill creates the keys.
func fill(ctx context.Context, stores []store, data []byte) error {
	var next atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, 1)
	for n := range 64 {
		group.Go(func() {
			for key := next.Add(1) - 1; key < keys; key = next.Add(1) - 1 {
				if err := stores[n%len(stores)].create(ctx, fmt.Sprint(key), data); err != nil {
					note(failed, err)
					return
				}
			}
		})
	}
	group.Wait()
	return first(failed)
}

func note(failed chan error, err error) {
	select {
	case failed <- err:
	default:
	}
}

func first(failed chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// begin reports that the work can begin, and waits until the measuring process has read the
// counters.
func begin() error {
	fmt.Println("begin")
	var line string
	_, err := fmt.Scanln(&line)
	return err
}

// worked runs the work on all connections.
func worked(stores []store, inFlight int, lasts time.Duration, work func(s store, n int) error) (m measured, err error) {
	if err := begin(); err != nil {
		return m, err
	}
	var next atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	var all loadgen.Histogram
	failed := make(chan error, 1)
	began := time.Now()
	for _, s := range stores {
		for range inFlight {
			group.Go(func() {
				var own loadgen.Histogram
				for time.Since(began) < lasts && len(failed) == 0 {
					n, sent := next.Add(1), time.Now()
					if err := work(s, int(n)); err != nil {
						note(failed, err)
						return
					}
					own.Add(time.Since(sent), 1)
				}
				mu.Lock()
				defer mu.Unlock()
				all.Merge(&own)
			})
		}
	}
	group.Wait()
	m = measured{all.Count(), time.Since(began).Seconds(), all.Quantile(0.5), all.Quantile(0.99)}
	return m, first(failed)
}

// watched writes one key repeatedly, and each time waits until all watchers were notified.
func watched(ctx context.Context, stores []store, watchers int, data []byte, lasts time.Duration) (m measured, err error) {
	told := make(chan struct{}, watchers)
	for n := range watchers {
		if err := stores[n%len(stores)].watch(ctx, 0, func() { told <- struct{}{} }); err != nil {
			return m, err
		}
	}
	return worked(stores[:1], 1, lasts, func(s store, _ int) error {
		if err := s.set(ctx, 0, data); err != nil {
			return err
		}
		for n := range watchers {
			select {
			case <-told:
			case <-time.After(10 * time.Second):
				return fmt.Errorf("%d of %d watchers were told", n, watchers)
			}
		}
		return nil
	})
}

var errNone = errors.New("no such key")
