package fle

import (
	"cmp"
	"fmt"
	"math"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// nobody is the leader in the vote of a server that does not vote itself.
const nobody quorum.ID = math.MinInt64

// untrusted is the zxid of a server whose history may be lost: its data directory is empty and
// nobody has marked it as new.
const untrusted zk.Zxid = -1

// Vote names the server that a server wants as its leader, or has as its leader.
type Vote struct {
	Leader quorum.ID
	// Zxid is the last one in the leader's history when the election began.
	Zxid zk.Zxid
	// Epoch is the leader's current epoch. Once a server is synchronized with its leader, it is
	// the epoch that was established then (ZOOKEEPER-1732).
	Epoch int64
}

// noVote is the initial vote of a server that does not vote.
var noVote = Vote{nobody, math.MinInt64, math.MinInt64}

// compare orders votes by (epoch, zxid, id), all signed, as Apache does. The epoch always comes
// first: without it the order was not transitive, and five servers never agreed
// (ZOOKEEPER-1419).
func (v Vote) compare(other Vote) int {
	return cmp.Or(cmp.Compare(v.Epoch, other.Epoch), cmp.Compare(v.Zxid, other.Zxid),
		cmp.Compare(v.Leader, other.Leader))
}

// outranks reports whether v is the better vote. A leader with weight in preferred comes first;
// then the order of votes decides. A leader without weight anywhere outranks nothing.
func (v Vote) outranks(other Vote, preferred, all quorum.Set) bool {
	mine, theirs := preferred.Weight(v.Leader) > 0, preferred.Weight(other.Leader) > 0
	if mine != theirs {
		return mine
	}
	return all.Weight(v.Leader) > 0 && v.compare(other) > 0
}

// String prints a vote for traces: the leader, zxid as epoch.counter, epoch.
func (v Vote) String() string {
	if v.Leader == nobody {
		return "nobody"
	}
	return fmt.Sprintf("%d zxid=%s epoch=%d", v.Leader, shortZxid(v.Zxid), v.Epoch)
}

func shortZxid(z zk.Zxid) string {
	if z < 0 {
		return fmt.Sprint(int64(z))
	}
	return fmt.Sprintf("%d.%d", z.Epoch(), z.Counter())
}
