package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A commit counts for all transactions that it commits, whatever the link.
func TestCommitsAreCountedByTransaction(t *testing.T) {
	var r received
	sum := int64(0)
	for _, m := range []zab.Message{
		{Kind: zab.KindCommit, Zxid: zk.MakeZxid(1, 1)},
		{Kind: zab.KindCommit, Zxid: zk.MakeZxid(1, 2)},
		{Kind: zab.KindCommit, Zxid: zk.MakeZxid(1, 40)},
		{Kind: zab.KindCommitAndActivate, Zxid: zk.MakeZxid(1, 41)},
		{Kind: zab.KindCommit, Zxid: zk.MakeZxid(1, 43)},
		{Kind: zab.KindCommit, Zxid: zk.MakeZxid(2, 1)}, // of another leader
		{Kind: zab.KindCommit, Zxid: zk.MakeZxid(2, 5)},
	} {
		sum += r.committedBy(&m)
	}
	if sum != 43+5 {
		t.Errorf("%d transactions", sum)
	}
}
