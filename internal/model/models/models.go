// Package models lists what the model checker explores: each machine with a
// small scope, which is part of the tests, and a full one, and the known bugs
// that are put back to see that they are found.
package models

import (
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/model/electormodel"
	"github.com/conclave-project/conclave/internal/model/flemodel"
	"github.com/conclave-project/conclave/internal/model/raftmodel"
	"github.com/conclave-project/conclave/internal/model/zabmodel"
)

// Named is a model with its two scopes.
type Named struct {
	Name, What  string
	Small, Full func() *model.Model
}

// Mutant is a known bug in the scope in which it is looked for.
type Mutant struct {
	Name, Model, Origin, What string
	New                       func() *model.Model
}

// All returns the models, in the order in which they are explored.
func All() []Named {
	return []Named{
		elections("fle", "3 servers elect a leader, in every order", flemodel.Small, flemodel.Full),
		elections("fle-links", "3 servers over links that repeat", flemodel.Small, flemodel.Links),
		elections("fle-five", "5 servers elect a leader over slow links", flemodel.SmallFive, flemodel.FullFive),
		elections("fle-join", "an election while a server joins the ensemble", flemodel.SmallJoin, flemodel.FullJoin),
		elections("fle-replace", "an election while a server comes for another", flemodel.SmallReplace, flemodel.FullReplace),
		order("zab", "epochs follow each other, with crashes", zabmodel.Small, zabmodel.Full),
		order("zab-links", "a first epoch over links that break", zabmodel.SmallLinks, zabmodel.FullLinks),
		order("zab-disk", "transactions with a slow disk", zabmodel.SmallDisk, zabmodel.FullDisk),
		order("zab-reconfig", "an epoch that begins during a reconfig", zabmodel.SmallReconfig, zabmodel.FullReconfig),
		order("zab-snapshot", "a snapshot that cannot be cut", zabmodel.SmallSnapshot, zabmodel.FullSnapshot),
		terms("raft", "members of which one dies and comes back", raftmodel.Small, raftmodel.Full),
		terms("raft-lease", "members that stand still, on clocks that differ", raftmodel.SmallLease, raftmodel.FullLease),
		terms("raft-links", "leaders that let go, over links that lose", raftmodel.SmallLinks, raftmodel.FullLinks),
		{"elector", "candidates whose functions do not end", func() *model.Model { return electormodel.New(electormodel.Small) },
			func() *model.Model { return electormodel.New(electormodel.Full) }},
	}
}

// Mutants returns the known bugs.
func Mutants() []Mutant {
	var all []Mutant
	for _, m := range flemodel.Mutants {
		name, scope := "fle", flemodel.Small
		if m.Mutant == flemodel.LeaderDeaf || m.Mutant == flemodel.JoinsSilently {
			name, scope = "fle-five", flemodel.Stalls
		}
		all = append(all, Mutant{string(m.Mutant), name, m.Origin, m.What,
			func() *model.Model { return flemodel.New(scope.WithMutant(m.Mutant)) }})
	}
	for _, m := range zabmodel.Mutants {
		name, scope := zabmodel.ScopeOf(m.Mutant)
		all = append(all, Mutant{string(m.Mutant), name, m.Origin, m.What, func() *model.Model { return zabmodel.New(scope) }})
	}
	for _, m := range raftmodel.Mutants {
		name, scope := raftmodel.ScopeOf(m.Mutant)
		all = append(all, Mutant{string(m.Mutant), name, m.Origin, m.What, func() *model.Model { return raftmodel.New(scope) }})
	}
	for _, m := range electormodel.Mutants {
		all = append(all, Mutant{string(m.Mutant), "elector", m.Origin, m.What,
			func() *model.Model { return electormodel.New(electormodel.Held.WithMutant(m.Mutant)) }})
	}
	return all
}

func terms(name, what string, small, full raftmodel.Scope) Named {
	return Named{name, what, func() *model.Model { return raftmodel.New(small) }, func() *model.Model { return raftmodel.New(full) }}
}

func order(name, what string, small, full zabmodel.Scope) Named {
	return Named{name, what, func() *model.Model { return zabmodel.New(small) }, func() *model.Model { return zabmodel.New(full) }}
}

func elections(name, what string, small, full flemodel.Scope) Named {
	return Named{name, what, func() *model.Model { return flemodel.New(small) }, func() *model.Model { return flemodel.New(full) }}
}
