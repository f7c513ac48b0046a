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

// TestLeaseEndsWhileTheSessionIsProven: a decided transaction does not mean that the leader
// counts the session from that moment. The candidate has waited, and has sent no heartbeat for
// as long as a client may. From that heartbeat on, the clocks drift for longer than the lease.
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
	c, err := s.session(ctx, 8*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := c.ProvenUntil()
	// A quarter of it before the end of a lease that began now.
	awaittest.Until(t, "half of the session has passed", func() bool { return clock.Now() >= first.Add(-c.Timeout()/2) })
	grant, err := b.Acquire(ctx, election.Claim{Election: "e", ID: "a", Nonce: "0123456789abcdef0123456789abcdef", Lease: 4 * time.Second})
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

// TestClaimHasASessionWithItsOwnLease: a program looks at an election before it campaigns, as
// `conclave run` does. The session that it looks with is not the claim's session, and ends.
func TestClaimHasASessionWithItsOwnLease(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(1))
	ctx := awaittest.Within(t)
	for _, lease := range []time.Duration{observeLease / 2, observeLease, 2 * observeLease} {
		s, err := newStore(e.Servers(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := queue.New(s, queue.Options{Close: s.close})
		looking, end := context.WithCancel(ctx)
		views := make(chan election.View)
		go func() {
			defer close(views)
			for v := range b.Observe(looking, "e") {
				select {
				case views <- v:
				case <-looking.Done():
				}
			}
		}()
		if v := <-views; v.Leader != "" {
			t.Errorf("%q leads", v.Leader)
		}
		grant, err := b.Acquire(ctx, election.Claim{Election: "e", ID: "a", Nonce: "0123456789abcdef0123456789abcdef", Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.open(lease, true) // the claim's
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Timeout(); got != lease {
			t.Errorf("with a lease of %v the session has %v", lease, got)
		}
		if v := <-views; v.Leader != "a" {
			t.Errorf("%q leads, want a", v.Leader)
		}
		end()
		for range views {
		}
		awaittest.Until(t, "the session to look with has ended", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.looking == nil && s.looks == 0
		})
		if err := b.Release(ctx, grant); err != nil {
			t.Error(err)
		}
		b.Close()
	}
}
