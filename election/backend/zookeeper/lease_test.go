package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// TestLeaseEndsWhileTheSessionIsProven: that the transaction was decided does not
// mean that the leader counts the session from then. The candidate has waited,
// and sent no heartbeat for as long as a client may.
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
	for election.Now() < first.Add(-c.Timeout()/2) { // a quarter of it before the lease, if that began now
		time.Sleep(time.Millisecond)
	}
	grant, err := b.Acquire(ctx, election.Claim{Election: "e", ID: "a", Nonce: "0123456789abcdef0123456789abcdef", Lease: time.Second})
	for range 20 {
		if err != nil {
			t.Fatal(err)
		}
		proven, _ := c.ProvenUntil()
		if over := grant.Sent.Add(grant.Lease).Sub(proven); over > 0 {
			t.Fatalf("the lease ends %v after what is proven of the session", over)
		}
		grant, err = b.Renew(ctx, grant)
	}
}
