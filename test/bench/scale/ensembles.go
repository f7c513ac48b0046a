//go:build linux

package scale

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/servers"
)

const (
	ensembleLoad = 3 * time.Second
	behindAim    = 1.1 // relative to the time of a write
)

// A shape is the size of an ensemble.
type shape struct {
	participants, observers int
	masters                 bool // followers serve the observers
}

func (s shape) String() string {
	text := fmt.Sprintf("%d servers", s.participants)
	if s.observers > 0 {
		text += fmt.Sprintf(", %d observers", s.observers)
	}
	if s.masters {
		text += " of followers"
	}
	return text
}

// learners returns how many learners the leader itself serves.
func (s shape) learners() int {
	if s.masters {
		return s.participants - 1
	}
	return s.participants - 1 + s.observers
}

var (
	fewShapes  = []shape{{3, 0, false}, {5, 0, false}, {7, 0, false}, {3, 6, false}, {3, 6, true}}
	manyShapes = []shape{{3, 0, false}, {3, 1, false}, {3, 3, false}, {3, 6, false}, {3, 6, true},
		{5, 0, false}, {5, 3, false}, {5, 6, false}, {5, 6, true}, {7, 0, false}, {7, 6, false}, {7, 6, true}}
)

func ensembles(ctx context.Context, b *bench, t *Table) error {
	shapes := fewShapes
	if b.Full {
		shapes = manyShapes
	}
	for _, s := range shapes {
		if err := shapeLoad(ctx, b, t, s); err != nil {
			return err
		}
	}
	for _, missed := range b.sizes([]int{100_000}, []int{100_000, 1_000_000}) {
		if err := behind(ctx, b, t, missed); err != nil {
			return err
		}
	}
	return nil
}

// shapeLoad measures what writes cost the leader of an ensemble when all clients are
// connected to it.
func shapeLoad(ctx context.Context, b *bench, t *Table, s shape) error {
	b.say("%s", s)
	return b.ensemble(ctx, servers.EnsembleOptions{Masters: s.masters}, s.participants, s.observers, func(e *servers.Ensemble, leader *servers.Member) error {
		o := loadgen.Options{Addrs: []string{leader.Addr}, Workload: loadgen.Set, Duration: ensembleLoad / 2}
		if err := loadgen.Fill(ctx, o); err != nil {
			return err
		}
		if _, err := load(ctx, o); err != nil { // warm-up
			return err
		}
		all, err := e.CPU()
		if err != nil {
			return err
		}
		of, err := leader.Server().CPU()
		if err != nil {
			return err
		}
		o.Duration = ensembleLoad
		r, err := load(ctx, o)
		if err != nil {
			return err
		}
		allAfter, err := e.CPU()
		if err != nil {
			return err
		}
		ofAfter, err := leader.Server().CPU()
		if err != nil {
			return err
		}
		n := float64(r.Operations)
		row := s.String()
		t.cell(row, "learners of the leader", float64(s.learners()), "", 0)
		t.cell(row, "sets a second", r.PerSecond(), "", 0)
		t.cell(row, "leader's CPU for a set", micros(ofAfter-of)/n, "µs", 0)
		t.cell(row, "for each learner", micros(ofAfter-of)/n/float64(s.learners()), "µs", 0)
		t.cell(row, "CPU of all for a set", micros(allAfter-all)/n, "µs", 0)
		return nil
	})
}

// behind measures how much a learner slows down the writes of others while it synchronizes
// from far behind: an observer that lacks all of the given number of znodes.
func behind(ctx context.Context, b *bench, t *Table, missed int) error {
	b.say("an observer that is %d znodes behind", missed)
	return b.ensemble(ctx, servers.EnsembleOptions{}, 3, 1, func(e *servers.Ensemble, leader *servers.Member) error {
		observer := e.Member(4)
		if err := observer.Stop(); err != nil {
			return err
		}
		o := loadgen.Options{Addrs: []string{leader.Addr}, Znodes: missed}
		if err := loadgen.Fill(ctx, o); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil { // a snapshot may be in progress
			return err
		}
		p, err := startPulse(leader.Addr, 0, setting("/writer"))
		if err != nil {
			return err
		}
		defer p.end()
		var rates, slower []float64
		var took []time.Duration
		var longest time.Duration
		for range 3 {
			if _, err := p.reset(); err != nil {
				return err
			}
			start := time.Now()
			if err := pause(ctx, 2*time.Second); err != nil {
				return err
			}
			lap, err := p.reset()
			if err != nil {
				return err
			}
			rates = append(rates, float64(lap.Count())/time.Since(start).Seconds())
			// It starts with an empty directory each time, so it lacks everything.
			if err := os.RemoveAll(observer.DataDir()); err != nil {
				return err
			}
			start = time.Now()
			if err := observer.Start(ctx); err != nil {
				return err
			}
			took = append(took, time.Since(start))
			if lap, err = p.reset(); err != nil {
				return err
			}
			slower = append(slower, float64(lap.Count())/took[len(took)-1].Seconds())
			longest = max(longest, lap.Max())
			if err := observer.Stop(); err != nil {
				return err
			}
		}
		before, meanwhile := middle.Of(rates), middle.Of(slower)
		t.add("an observer far behind: until it serves", missed, ms(middle.Of(took)), "ms")
		t.add("an observer far behind: writes of one client before", missed, before, "a second")
		t.add("an observer far behind: writes of one client meanwhile", missed, meanwhile, "a second")
		t.aim("an observer far behind: a write meanwhile, times one before", missed, before/meanwhile, "", behindAim)
		t.add("an observer far behind: longest write meanwhile", missed, ms(longest), "ms")
		return nil
	})
}
