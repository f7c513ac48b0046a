//go:build linux

package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

const (
	tenantFactor = 2.0
	quietPace    = time.Millisecond
	listed       = 100_000 // children of the directory that a noisy client lists
)

// A noise is a client's activity at full speed until its context ends.
type noise struct {
	name string
	make func(ctx context.Context, addr string) error
}

var noises = []noise{
	{"writes", func(ctx context.Context, addr string) error { return flood(ctx, addr, loadgen.Set) }},
	{"reads", func(ctx context.Context, addr string) error { return flood(ctx, addr, loadgen.Get) }},
	{"lists of a big directory", lists},
	{"watches", manyWatches},
	{"connects", connects},
}

// tenants compares the p99 of a quiet client in three situations: alone, while the noise is
// on another server of the same machine, and while it is on its own server. The second
// shows the influence of the machine, independent of the server.
func tenants(ctx context.Context, b *bench, t *Table) error {
	return b.server(ctx, unlimited(), func(own *servers.Server) error {
		return b.server(ctx, unlimited(), func(other *servers.Server) error {
			for _, s := range []*servers.Server{own, other} {
				if err := furnish(ctx, s.Addr); err != nil {
					return err
				}
			}
			for _, n := range noises {
				if err := b.tenant(ctx, t, n, own.Addr, other.Addr); err != nil {
					return fmt.Errorf("%s: %w", n.name, err)
				}
			}
			return nil
		})
	})
}

// furnish creates what the noises read and write.
func furnish(ctx context.Context, addr string) error {
	for prefix, n := range map[string]int{"/bench": 10_000, "/listed": listed} {
		if err := loadgen.Fill(ctx, loadgen.Options{Addrs: []string{addr}, Prefix: prefix, Znodes: n, DataBytes: 10}); err != nil {
			return err
		}
	}
	return nil
}

// The situations of a quiet client.
const (
	alone = iota
	elsewhere
	beside
)

// tenant measures one noise: in each round the three situations follow each other.
func (b *bench) tenant(ctx context.Context, t *Table, n noise, own, other string) error {
	rounds, lasting := b.size(3, 5), time.Duration(b.size(1500, 4000))*time.Millisecond
	quiet := []struct {
		name string
		ask  func(c *probe.Conn) error
	}{{"write", setting("/quiet")}, {"read", getting("/bench")}}
	p99 := make([][3][]float64, len(quiet))
	b.say("a quiet client beside %s", n.name)
	for range rounds {
		for turn, addr := range []string{alone: "", elsewhere: other, beside: own} {
			laps, err := turnOf(ctx, n, own, addr, lasting, quiet[0].ask, quiet[1].ask)
			if err != nil {
				return err
			}
			for i, lap := range laps {
				p99[i][turn] = append(p99[i][turn], ms(lap.Quantile(0.99)))
			}
		}
	}
	for i, q := range quiet {
		row := fmt.Sprintf("%s, a quiet %s", n.name, q.name)
		single, machine, both := middle.Of(p99[i][alone]), middle.Of(p99[i][elsewhere]), middle.Of(p99[i][beside])
		t.cell(row, "p99 alone", single, "ms", 0)
		t.cell(row, "noise on another server", machine, "ms", 0)
		t.cell(row, "noise on the same server", both, "ms", 0)
		t.cell(row, "times alone", both/single, "", tenantFactor)
		t.cell(row, "times the other server", both/machine, "", tenantFactor)
	}
	return nil
}

// turnOf measures quiet clients for a while, with a noise at addr, or none.
func turnOf(ctx context.Context, n noise, own, addr string, lasting time.Duration, quiet ...func(c *probe.Conn) error) ([]*loadgen.Histogram, error) {
	noisy, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		if addr == "" {
			ended <- nil
			return
		}
		ended <- n.make(noisy, addr)
	}()
	laps, err := quietly(ctx, own, lasting, quiet)
	stop()
	if failed := <-ended; err == nil && ctx.Err() == nil {
		err = failed
	}
	return laps, err
}

// quietly runs quiet clients for a while, after the noise has had a moment to begin.
func quietly(ctx context.Context, addr string, lasting time.Duration, quiet []func(c *probe.Conn) error) ([]*loadgen.Histogram, error) {
	var pulses []*pulse
	defer func() {
		for _, p := range pulses {
			p.end()
		}
	}()
	for _, ask := range quiet {
		p, err := startPulse(addr, quietPace, ask)
		if err != nil {
			return nil, err
		}
		pulses = append(pulses, p)
	}
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return nil, err
	}
	for _, p := range pulses {
		if _, err := p.reset(); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, lasting); err != nil {
		return nil, err
	}
	var laps []*loadgen.Histogram
	for _, p := range pulses {
		lap, err := p.reset()
		if err != nil {
			return nil, err
		}
		laps = append(laps, lap)
	}
	return laps, nil
}

// flood runs a load at full speed.
func flood(ctx context.Context, addr string, w loadgen.Workload) error {
	_, err := loadgen.Run(ctx, loadgen.Options{Addrs: []string{addr}, Workload: w, Duration: time.Hour, DataBytes: 10})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loops runs f repeatedly in several goroutines, until ctx ends.
func loops(ctx context.Context, n int, f func(turn int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() {
			var err error
			for turn := i; ctx.Err() == nil && err == nil; turn += n {
				err = f(turn)
			}
			errs <- err
		}()
	}
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// lists lists a large directory, on four connections.
func lists(ctx context.Context, addr string) error {
	request := probe.PathWatchBody("/listed", false)
	return each(ctx, addr, 4, func(c *probe.Conn, _ int) error {
		_, err := c.Call(probe.OpGetChildren2, request)
		return err
	})
}

// watchesOfTurn is how many watches a noisy client sets in one frame.
const watchesOfTurn = 5_000

// manyWatches sets watches repeatedly, on two connections, with different paths.
func manyWatches(ctx context.Context, addr string) error {
	return each(ctx, addr, 2, func(c *probe.Conn, turn int) error {
		return setWatches(c, turn%40*watchesOfTurn, watchesOfTurn)
	})
}

// each calls f repeatedly on several connections.
func each(ctx context.Context, addr string, n int, f func(c *probe.Conn, turn int) error) error {
	conns := make([]*probe.Conn, n)
	for i := range conns {
		c, err := probe.Dial(addr, longSession)
		if err != nil {
			return err
		}
		defer c.Cut()
		conns[i] = c
	}
	return loops(ctx, n, func(turn int) error { return f(conns[turn%n], turn) })
}

// connects opens and closes sessions, eight at a time.
func connects(ctx context.Context, addr string) error {
	return loops(ctx, 8, func(int) error {
		c, err := probe.Dial(addr, longSession)
		if err != nil {
			return err
		}
		return c.Close()
	})
}
