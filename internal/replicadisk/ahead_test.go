package replicadisk

import (
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
)

// The tree that a leader has sent may be ahead of its zxid, and nobody knows how far. A start
// reports that until a transaction of the log has the digest of the tree: readers would see
// parts of later transactions.
func TestStateOfALeaderIsFuzzyUntilADigestIsEqual(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 6)
	must(t, d.store.SetAccepted(1))
	op := replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: zx(1, 6), Ticket: 2}
	_, err := d.Do(&op, Begin(h.state.Tree(), h.state.Leases()))
	must(t, err)
	must(t, d.Close())

	d, found := begin(t, mem, options())
	if !found.Fuzzy || found.Stored.Last != zx(1, 6) {
		t.Errorf("found %+v", found)
	}
	must(t, h.add(1, 7, 7).log(d, zx(1, 6)))
	must(t, d.Close())
	if _, found = begin(t, mem, options()); found.Fuzzy || found.Stored.Last != zx(1, 7) {
		t.Errorf("found %+v", found)
	}
}
