//go:build linux

package main

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// A pair is the two kinds of server that are compared.
type pair struct {
	pools [2]*pool
	names [2]string
}

func newPair(ctx context.Context, kinds [2]servers.Kind, reapMs int, how ...servers.Options) (*pair, error) {
	p := &pair{}
	for i, k := range kinds {
		pool, err := newPool(ctx, k, reapMs, how...)
		if err != nil {
			p.stop()
			return nil, err
		}
		p.pools[i], p.names[i] = pool, k.Name()
	}
	return p, nil
}

func (p *pair) stop() {
	for _, pool := range p.pools {
		if pool != nil {
			pool.stop()
		}
	}
}

// play runs the steps of keep on a fresh server of each kind, at the same time.
func (p *pair) play(s *script, keep []int) (left, right transcript, err error) {
	type answer struct {
		t   transcript
		err error
	}
	other := make(chan answer, 1)
	go func() {
		t, err := p.pools[1].play(s, keep)
		other <- answer{t, err}
	}()
	left, err = p.pools[0].play(s, keep)
	a := <-other
	if err == nil {
		err = a.err
	}
	return left, a.t, err
}

// shrink drops steps as long as the first difference stays at the same step, so one
// difference does not turn into another. It drops halves, then quarters, and so on down to
// single steps (delta debugging). It stops after the given time and returns the result so
// far.
func (p *pair) shrink(s *script, at int, within time.Duration) []int {
	deadline := time.Now().Add(within)
	keep := all(min(at+1, len(s.steps)))
	differs := func(keep []int) bool {
		left, right, err := p.play(s, keep)
		return err == nil && firstDifference(left, right) == at
	}
	for size := max(1, len(keep)/2); ; size /= 2 {
		for start := 0; start < len(keep); {
			if time.Now().After(deadline) {
				return keep
			}
			end := min(start+size, len(keep))
			without := append(append([]int{}, keep[:start]...), keep[end:]...)
			if differs(without) {
				keep = without
			} else {
				start = end
			}
		}
		if size <= 1 {
			return keep
		}
	}
}
