//go:build linux

package scale

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/servers"
)

const (
	coreLoad   = 3 * time.Second
	coreRounds = 3
	coreAim    = 1.1 // CPU time of a read, relative to one core
)

// cores compares the cost of a read on one core and on all cores.
func cores(ctx context.Context, b *bench, t *Table) error {
	counts := []int{1}
	for n := 2; n <= runtime.NumCPU(); n *= 2 {
		counts = append(counts, n)
	}
	if most := counts[len(counts)-1]; most < 16 {
		t.note("cores stop at %d: the machine has %d", most, runtime.NumCPU())
	}
	rates, costs := make([][]float64, len(counts)), make([][]float64, len(counts))
	for range coreRounds {
		for i, n := range counts {
			rate, cost, err := readsOn(ctx, b, n)
			if err != nil {
				return err
			}
			rates[i], costs[i] = append(rates[i], rate), append(costs[i], cost)
		}
	}
	for i, n := range counts {
		t.add("gets in a second, by cores of the server", n, middle.Of(rates[i]), "")
		t.add("CPU of a get, by cores of the server", n, middle.Of(costs[i]), "µs")
		if i > 0 {
			t.aim("CPU of a get, times that on one core", n, middle.Of(costs[i])/middle.Of(costs[0]), "", coreAim)
		}
	}
	return nil
}

// readsOn runs gets on a server that may use n cores.
func readsOn(ctx context.Context, b *bench, n int) (perSecond, cost float64, err error) {
	b.say("gets on %d cores", n)
	err = b.server(ctx, servers.Options{Environment: []string{fmt.Sprintf("GOMAXPROCS=%d", n)}}, func(s *servers.Server) error {
		o := loadgen.Options{Addrs: []string{s.Addr}, Workload: loadgen.Get, Duration: coreLoad / 3}
		if err := loadgen.Fill(ctx, o); err != nil {
			return err
		}
		if _, err := load(ctx, o); err != nil { // warm-up
			return err
		}
		before, err := s.CPU()
		if err != nil {
			return err
		}
		o.Duration = coreLoad
		r, err := load(ctx, o)
		if err != nil {
			return err
		}
		after, err := s.CPU()
		perSecond, cost = r.PerSecond(), micros(after-before)/float64(r.Operations)
		return err
	})
	return perSecond, cost, err
}
