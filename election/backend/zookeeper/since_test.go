package zookeeper_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// TestNobodyIsSeenLeadingSinceItWaited: the znode of a candidate is older than its
// leadership, and the history, which has the right time, is written a little later.
func TestNobodyIsSeenLeadingSinceItWaited(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	b := open(t, addr)
	grant, err := b.Acquire(awaittest.Within(t), claim("a", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	// A candidate of ours that leads already and has not recorded it.
	_, _, err = operator(t, addr).Create(awaittest.Within(t), "/conclave/elections/e/_c_6ba7b810-9dad-11d1-80b4-00c04fd430c8-p0-latch-",
		[]byte("late"), client.CreateOptions{Mode: zk.EphemeralSequential})
	if err != nil {
		t.Fatal(err)
	}
	for view, err := range b.Observe(awaittest.Within(t), "e") {
		if err != nil || view.Leader != "late" || !view.Since.IsZero() {
			t.Errorf("%q is seen leading since %v, %v", view.Leader, view.Since, err)
		}
		return
	}
}
