//go:build unix

package file

import (
	"os"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// The last proof of a new grant is the check of the lock file. What comes after
// it (history, sweep) may take any time, which counts towards the lease.
func TestLeaseCountsFromBeforeTheLastProof(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	var replaced clock.Instant
	b.fault = func(operation string) error {
		if operation == historyFile && replaced == 0 { // in beginTenure: after the last check
			p, _ := b.place("jobs")
			_ = os.Remove(p.path(lockFile)) // an operator; others are elected after a lease
			replaced = b.clock.Now()
			awaittest.Until(t, "the clock goes on", func() bool { return b.clock.Now() > replaced })
		}
		return nil
	}
	grant, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if replaced == 0 {
		t.Fatal("nothing was replaced")
	}
	if grant.Sent > replaced {
		t.Errorf("the lease of 1 s counts from %v after the lock file was replaced", grant.Sent.Sub(replaced))
	}
}
