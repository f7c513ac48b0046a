// Package registry finds the election algorithms by name.
//
// It makes a machine from the options that all algorithms need, with times that suit a lease. It is
// for the command line, the laboratory, and backends that let their users choose.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/bully"
	"github.com/conclave-project/conclave/algo/lowest"
	"github.com/conclave-project/conclave/algo/raft"
	"github.com/conclave-project/conclave/algo/ring"
)

// Options are the options that all algorithms need. Times are in milliseconds.
type Options struct {
	ID      algo.ID
	Members []algo.ID // all members, including this one; of a ring, in its order
	// State is what was on disk; empty at the first start.
	State algo.State
	// LeaseMs is how long a silent leader keeps others out, or how long they wait for it.
	LeaseMs int64
	// FormerLeaseMs is the longest LeaseMs that this member had before its start, or 0 if it was
	// the same.
	FormerLeaseMs int64
	DriftPercent  int64
	Seed          uint64
}

// Algorithm is one election algorithm.
type Algorithm struct {
	Name string
	// Exclusive reports whether at most one member leads at any time, and terms are fencing tokens.
	Exclusive bool
	// New returns a member that starts at the given time.
	New func(nowMs int64, o Options) algo.Machine
}

var algorithms = []Algorithm{
	{Name: "raft", Exclusive: true, New: newRaft},
	{Name: "bully", New: newBully},
	{Name: "ring", New: newRing},
	{Name: "lowest", New: newLowest},
}

// All returns all algorithms, starting with the safe one.
func All() []Algorithm { return slices.Clone(algorithms) }

// Get returns the algorithm with the given name.
func Get(name string) (Algorithm, error) {
	var names []string
	for _, a := range algorithms {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Algorithm{}, fmt.Errorf("no algorithm is called %q; there are %s", name, strings.Join(names, ", "))
}

func newRaft(nowMs int64, o Options) algo.Machine {
	if o.State.Config.Version == 0 {
		o.State.Config = algo.Config{Version: 1, Members: o.Members}
	}
	return raft.New(nowMs, raft.Config{ID: o.ID, State: o.State, LeaseMs: o.LeaseMs, FormerLeaseMs: o.FormerLeaseMs,
		DriftPercent: o.DriftPercent, Seed: o.Seed})
}

func newBully(_ int64, o Options) algo.Machine {
	return bully.New(bully.Config{ID: o.ID, Members: o.Members, HeartbeatMs: max(1, o.LeaseMs/5),
		SilenceMs: o.LeaseMs, AnswerMs: max(2, o.LeaseMs/5)})
}

func newRing(_ int64, o Options) algo.Machine {
	return ring.New(ring.Config{ID: o.ID, Members: o.Members, HeartbeatMs: max(1, o.LeaseMs/5),
		SilenceMs: o.LeaseMs, PassMs: max(2, o.LeaseMs/10)})
}

func newLowest(_ int64, o Options) algo.Machine {
	return lowest.New(lowest.Config{ID: o.ID, Members: o.Members, HeartbeatMs: max(1, o.LeaseMs/5),
		SilenceMs: o.LeaseMs})
}
