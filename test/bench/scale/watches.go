//go:build linux

package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// The aims for watches.
const (
	watchBytes   = 60.0
	watcherAim   = 200 * time.Millisecond / 100_000 // for each watcher of one change
	rearmPaths   = 100_000
	rearmGapAim  = 50 * time.Millisecond
	pathsOfFrame = 20_000 // a frame with this many paths is shorter than jute.maxbuffer
	pathsOfConn  = 500_000
)

func watches(ctx context.Context, b *bench, t *Table) error {
	for _, f := range []func(context.Context, *bench, *Table) error{watchMemory, oneChange, rearm} {
		if err := f(ctx, b, t); err != nil {
			return err
		}
	}
	return nil
}

// unlimited removes the limit on the memory of watches.
func unlimited() servers.Options {
	return servers.Options{Config: []string{"conclave.watchBytesMax=0"}}
}

// watchPath returns the path of a watch, 12 bytes long.
func watchPath(n int) string { return fmt.Sprintf("/w%010d", n) }

// watchMemory measures the server's memory for a watch including its path, if each watch is
// on a different path.
func watchMemory(ctx context.Context, b *bench, t *Table) error {
	return b.server(ctx, unlimited(), func(s *servers.Server) error {
		before, err := atRest(ctx, s)
		if err != nil {
			return err
		}
		made := 0
		var conn *probe.Conn
		for _, n := range b.sizes([]int{10_000, 100_000, 1_000_000}, []int{10_000, 100_000, 1_000_000, 10_000_000}) {
			b.say("%d watches", n)
			for made < n {
				if conn == nil || made%pathsOfConn == 0 {
					if conn, err = probe.Dial(s.Addr, longSession); err != nil {
						return err
					}
					defer conn.Cut()
				}
				many := min(pathsOfFrame, n-made, pathsOfConn-made%pathsOfConn)
				if err := setWatches(conn, made, many); err != nil {
					return err
				}
				made += many
			}
			after, err := atRest(ctx, s)
			if err != nil {
				return err
			}
			t.flat("memory of a watch, with its path of 12 bytes", n, float64(after-before)/float64(n), "bytes", watchBytes)
		}
		return nil
	})
}

// setWatches sets watches on paths that do not exist, in one frame, as a client does after
// a reconnect.
func setWatches(c *probe.Conn, first, n int) error {
	list := &zk.SetWatches{RelativeZxid: 1 << 62, Exist: make([]string, n)}
	for i := range list.Exist {
		list.Exist[i] = watchPath(first + i)
	}
	if err := c.Write(wire.AppendRequest(nil, &zk.Request{Xid: -8, Op: zk.OpSetWatches, SetWatches: list})); err != nil {
		return err
	}
	r, err := c.Receive()
	if err == nil && r.Code != 0 {
		err = r.Code
	}
	return err
}

// oneChange measures how long the last of many clients waits for the event of one change
// that all of them watch.
func oneChange(ctx context.Context, b *bench, t *Table) error {
	return b.server(ctx, unlimited(), func(s *servers.Server) error {
		writer, err := probe.Dial(s.Addr, longSession)
		if err != nil {
			return err
		}
		defer writer.Cut()
		if _, err := writer.Create("/watched", nil, probe.World, probe.Persistent); err != nil {
			return err
		}
		c, err := newCrowd(longSession, s.Addr)
		if err != nil {
			return err
		}
		defer c.close()
		for _, n := range t.withinClients([]int{1_000, 10_000, 100_000}) {
			b.say("one change for %d watchers", n)
			if err := c.grow(ctx, n, connectWindow); err != nil {
				return err
			}
			var all, answers []time.Duration
			for range 5 {
				last, answer, err := changeOnce(ctx, c, writer)
				if err != nil {
					return err
				}
				all, answers = append(all, last), append(answers, answer)
			}
			last := middle.Of(all)
			t.add("one change until the last watcher has its event", n, ms(last), "ms")
			t.flat("one change until the last watcher has its event, for each", n, micros(last)/float64(n), "µs", micros(watcherAim))
			t.add("one change until its writer is answered", n, ms(middle.Of(answers)), "ms")
		}
		return nil
	})
}

// changeOnce has each client of a crowd watch a znode, and changes it. It returns the time
// until the last client has the event, and until the writer has its answer.
func changeOnce(ctx context.Context, c *crowd, writer *probe.Conn) (last, answer time.Duration, err error) {
	n, before := len(c.clients), c.replies
	watch := probe.Request(2, probe.OpExists, probe.PathWatchBody("/watched", true))
	if err := c.sendAll(func(int) []byte { return watch }); err != nil {
		return 0, 0, err
	}
	if err := c.until(ctx, func() bool { return c.replies == before+n }); err != nil {
		return 0, 0, err
	}
	events, answered := c.events, make(chan time.Duration, 1)
	start := time.Now()
	if _, err := writer.Send(probe.OpSetData, probe.SetDataBody("/watched", []byte("x"), -1)); err != nil {
		return 0, 0, err
	}
	var failed error
	go func() {
		_, failed = writer.Receive()
		answered <- time.Since(start)
	}()
	if err := c.until(ctx, func() bool { return c.events == events+n }); err != nil {
		return 0, 0, err
	}
	last = time.Since(start)
	answer = <-answered
	return last, answer, failed
}

// rearm measures how long a client with many watches waits after a reconnect until all are
// set again, in frames that no limit refuses, and how long another client's writes take
// meanwhile.
func rearm(ctx context.Context, b *bench, t *Table) error {
	return b.server(ctx, unlimited(), func(s *servers.Server) error {
		p, err := startPulse(s.Addr, 0, setting("/writer"))
		if err != nil {
			return err
		}
		defer p.end()
		for _, n := range b.sizes([]int{10_000, rearmPaths}, []int{10_000, rearmPaths, 10 * rearmPaths}) {
			b.say("%d watches set again", n)
			if err := pause(ctx, 2*time.Second); err != nil {
				return err
			}
			quiet, err := p.reset()
			if err != nil {
				return err
			}
			var all []time.Duration
			var worst loadgen.Histogram
			for range 3 {
				c, err := probe.Dial(s.Addr, longSession)
				if err != nil {
					return err
				}
				if _, err := p.reset(); err != nil {
					return err
				}
				start := time.Now()
				for made := 0; made < n; made += pathsOfFrame {
					if err := setWatches(c, made, min(pathsOfFrame, n-made)); err != nil {
						return err
					}
				}
				all = append(all, time.Since(start))
				lap, err := p.reset()
				if err != nil {
					return err
				}
				worst.Merge(lap)
				c.Cut()
			}
			t.flat("watches set again after a reconnect, for each", n, micros(middle.Of(all))/float64(n), "µs", 0)
			t.aim("watches set again: a writer waits at most", n, ms(worst.Max()), "ms", ms(rearmGapAim))
			t.add("watches set again: before", n, ms(quiet.Max()), "ms")
		}
		return nil
	})
}
