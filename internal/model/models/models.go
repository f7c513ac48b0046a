// Package models lists what the model checker explores: each machine with a
// small scope, which is part of the tests, and a full one; and the known bugs
// that are put back to check that they are found.
package models

import (
	"slices"

	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/model/electormodel"
	"github.com/conclave-project/conclave/internal/model/flemodel"
	"github.com/conclave-project/conclave/internal/model/raftmodel"
	"github.com/conclave-project/conclave/internal/model/zabmodel"
)

// All returns the models, in the order in which they are explored.
func All() []model.Named {
	fle, zab, raft, elector := flemodel.New, zabmodel.New, raftmodel.New, electormodel.New
	return []model.Named{
		model.Scopes(fle, "fle", "3 servers elect a leader, in every order", flemodel.Small, flemodel.Full),
		model.Scopes(fle, "fle-links", "3 servers over links that repeat", flemodel.Small, flemodel.Links),
		model.Scopes(fle, "fle-five", "5 servers elect a leader over slow links", flemodel.SmallFive, flemodel.FullFive),
		model.Scopes(fle, "fle-join", "an election while a server joins the ensemble", flemodel.SmallJoin, flemodel.FullJoin),
		model.Scopes(fle, "fle-replace", "an election while a server comes for another", flemodel.SmallReplace, flemodel.FullReplace),
		model.Scopes(zab, "zab", "epochs follow each other, with crashes", zabmodel.Small, zabmodel.Full),
		model.Scopes(zab, "zab-links", "a first epoch over links that break", zabmodel.SmallLinks, zabmodel.FullLinks),
		model.Scopes(zab, "zab-disk", "transactions with a slow disk", zabmodel.SmallDisk, zabmodel.FullDisk),
		model.Scopes(zab, "zab-one-by-one", "the same over links as Apache's servers have", zabmodel.SmallOneByOne, zabmodel.FullOneByOne),
		model.Scopes(zab, "zab-reconfig", "an epoch that begins during a reconfig", zabmodel.SmallReconfig, zabmodel.FullReconfig),
		model.Scopes(zab, "zab-snapshot", "a snapshot that cannot be cut", zabmodel.SmallSnapshot, zabmodel.FullSnapshot),
		model.Scopes(raft, "raft", "members of which one dies and comes back", raftmodel.Small, raftmodel.Full),
		model.Scopes(raft, "raft-lease", "members that stall, on clocks that differ", raftmodel.SmallLease, raftmodel.FullLease),
		model.Scopes(raft, "raft-links", "leaders that stepped down, over links that lose", raftmodel.SmallLinks, raftmodel.FullLinks),
		model.Scopes(raft, "raft-forget", "members that forget an idle election", raftmodel.SmallForget, raftmodel.FullForget),
		model.Scopes(raft, "raft-lose", "members of which one loses its disk", raftmodel.SmallLose, raftmodel.FullLose),
		model.Scopes(elector, "elector", "candidates that stall, on clocks that differ", electormodel.Small, electormodel.Full),
		model.Scopes(elector, "elector-resign", "candidates that are asked to resign", electormodel.SmallResign, electormodel.FullResign),
		model.Scopes(elector, "elector-links", "candidates whose requests and answers are late or lost", electormodel.SmallLinks, electormodel.FullLinks),
		model.Scopes(elector, "elector-failover", "candidates on a store that forgets", electormodel.SmallFailover, electormodel.FullFailover),
		model.Scopes(elector, "elector-parts", "candidates on a store with two sides", electormodel.SmallParts, electormodel.FullParts),
	}
}

// Mutants returns the known bugs.
func Mutants() []model.Mutant {
	return slices.Concat(flemodel.Mutants(), zabmodel.Mutants(), raftmodel.Mutants(), electormodel.Mutants())
}
