package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestLeaseEndsWhileTheSessionIsProven: that the transaction was decided does not
// mean that the leader counts the session from then. The candidate has waited,
// and sent no heartbeat for as long as a client may. The clocks drift from that
// heartbeat on, for longer than the lease.
func TestLeaseEndsWhileTheSessionIsProven(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := newStore(e.Servers(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := queue.New(s, queue.Options{Close: s.close})
	defer b.Close()
	c, err := s.session(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := c.ProvenUntil()
	// A quarter of it before the lease, if that began now.
	awaittest.Until(t, "half of the session has passed", func() bool { return clock.Now() >= first.Add(-c.Timeout()/2) })
	grant, err := b.Acquire(ctx, election.Claim{Election: "e", ID: "a", Nonce: "0123456789abcdef0123456789abcdef", Lease: time.Second})
	for range 20 {
		if err != nil {
			t.Fatal(err)
		}
		proven, _ := c.ProvenUntil()
		sign := proven.Add(-c.Timeout())
		for percent := range time.Duration(election.ClockDriftPercentMax + 1) {
			deadline := grant.Sent.Add(grant.Lease * (100 - percent) / 100) // as the Elector has it
			if over := deadline.Sub(sign.Add(c.Timeout() * 100 / (100 + percent))); over > 0 {
				t.Fatalf("by a clock that is %d %% faster, the lease ends %v after what is proven of the session", percent, over)
			}
		}
		grant, err = b.Renew(ctx, grant)
	}
}
