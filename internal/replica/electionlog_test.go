package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

func TestElectionLogKeepsTheVotesOfAnElection(t *testing.T) {
	vote := func(at int64, from, leader quorum.ID, state fle.State) Cast {
		return Cast{AtMs: at, Server: from, State: state, Round: 3, Vote: fle.Vote{Leader: leader}}
	}
	var l electionLog
	l.begin(100)
	l.decided(110, 3)
	l.cast(vote(200, 4, 4, fle.Looking)) // long before the next election
	l.cast(vote(4900, 2, 1, fle.Looking))
	l.cast(vote(4950, 2, 2, fle.Looking)) // another server lost the leader earlier
	l.cast(vote(4960, 5, 3, fle.Following))
	l.leave(zab.ReasonLinkLost)
	l.begin(8000)
	l.cast(vote(8000, 1, 1, fle.Looking))
	l.cast(vote(8001, 1, 1, fle.Looking)) // sent to another server
	l.cast(vote(8002, 1, 2, fle.Looking))
	l.decided(8003, 2)
	l.cast(vote(8004, 1, 2, fle.Following))
	if len(l.all) != 2 || l.all[0].Reason != zab.ReasonNone || len(l.all[0].Cast) != 0 || l.all[0].Leader != 3 {
		t.Fatalf("%+v", l.all)
	}
	e := l.all[1]
	if e.Reason != zab.ReasonLinkLost || e.DecidedMs != 8003 || e.Leader != 2 || len(e.Cast) != 3 {
		t.Fatalf("%+v", e)
	}
	for i, want := range []Cast{vote(4950, 2, 2, fle.Looking), vote(8000, 1, 1, fle.Looking), vote(8002, 1, 2, fle.Looking)} {
		if e.Cast[i] != want {
			t.Errorf("vote %d: %+v", i, e.Cast[i])
		}
	}

	for i := range int64(electionsKept + 3) {
		l.begin(9000 + i)
		for j := range int64(castMax + 7) {
			l.cast(vote(9000, 1, quorum.ID(j), fle.Looking))
		}
	}
	if last := l.all[len(l.all)-1]; len(l.all) != electionsKept || len(last.Cast) != castMax || last.More != 7 || last.DecidedMs != 0 {
		t.Errorf("%d elections, the last with %d votes and %d more", len(l.all), len(last.Cast), last.More)
	}
}
