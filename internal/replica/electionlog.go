package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// ElectionEntry is an election as this server saw it, for operators. Times are those of its
// wall clock, in milliseconds.
type ElectionEntry struct {
	BeganMs   int64
	Reason    zab.Reason // why this server's role before it ended; zab.ReasonNone without one
	Cast      []Cast     // votes in order of arrival, including its own
	More      int        // how many votes were not kept
	DecidedMs int64      // 0 while it goes on, and if it led to nothing
	Leader    quorum.ID  // the elected leader
}

// Cast is a vote that a server has sent: its first one, or one that differs from its last.
type Cast struct {
	AtMs   int64
	Server quorum.ID
	State  fle.State // of that server: one that follows or leads names the leader
	Round  int64
	fle.Vote
}

// How many of the newest elections are kept, and how many votes of each.
const (
	electionsKept = 16
	castMax       = 64
)

// earlyMs is how long before an election a vote may have arrived to be part of it: another
// server may have lost its leader a moment earlier.
const earlyMs = 5000

// electionLog holds the newest elections, the oldest first.
type electionLog struct {
	all   []ElectionEntry
	left  zab.Reason // why the last role ended, if it ended after the last election began
	early []Cast     // the last vote of each server that looks while this one does not
}

// leave records why a role has ended.
func (l *electionLog) leave(reason zab.Reason) { l.left = reason }

// begin records that an election begins.
func (l *electionLog) begin(nowMs int64) {
	if len(l.all) >= electionsKept {
		l.all = slices.Delete(l.all, 0, 1)
	}
	l.all = append(l.all, ElectionEntry{BeganMs: nowMs, Reason: l.left})
	l.left = zab.ReasonNone
	for _, c := range l.early {
		if c.AtMs >= nowMs-earlyMs {
			l.cast(c)
		}
	}
	l.early = l.early[:0]
}

// cast records a vote, unless its server has sent the same one before.
func (l *electionLog) cast(c Cast) {
	if len(l.all) == 0 || l.all[len(l.all)-1].DecidedMs != 0 {
		l.keep(c)
		return
	}
	last := &l.all[len(l.all)-1]
	for i := len(last.Cast) - 1; i >= 0; i-- {
		if was := &last.Cast[i]; was.Server == c.Server {
			if was.State == c.State && was.Round == c.Round && was.Vote == c.Vote {
				return
			}
			break
		}
	}
	if len(last.Cast) >= castMax {
		last.More++
		return
	}
	last.Cast = append(last.Cast, c)
}

// keep keeps a vote for an election that may begin soon.
func (l *electionLog) keep(c Cast) {
	if c.State != fle.Looking {
		return
	}
	l.early = slices.DeleteFunc(l.early, func(was Cast) bool { return was.Server == c.Server })
	if len(l.early) < castMax {
		l.early = append(l.early, c)
	}
}

// decided records which server was elected. A leader that a reconfig has appointed has had no
// election.
func (l *electionLog) decided(nowMs int64, leader quorum.ID) {
	if len(l.all) == 0 {
		return
	}
	if last := &l.all[len(l.all)-1]; last.DecidedMs == 0 {
		last.DecidedMs, last.Leader = nowMs, leader
	}
}

// ElectionLog returns the newest elections, the oldest first.
func (r *Replica) ElectionLog() []ElectionEntry {
	all := slices.Clone(r.electionLog.all)
	for i := range all {
		all[i].Cast = slices.Clone(all[i].Cast)
	}
	return all
}
