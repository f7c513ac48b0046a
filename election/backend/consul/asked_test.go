package consul

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestNextLeaderIsAskedWhileARequestOfTheLastOneStands: the last leader has stepped down, but its
// session lives on, as it does on the servers when the request to end it is lost.
func TestNextLeaderIsAskedWhileARequestOfTheLastOneStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(bubble.Clock(1))
		store := storeOn(direct{a}, bubble.Clock(1))
		operator := queue.New(store, queue.Options{})
		defer operator.Close()
		for _, id := range []string{"a", "b"} {
			e := store.Entry(t.Context(), election.Claim{Election: "e", ID: id, Nonce: id, Lease: LeaseMinDefault})
			token := locked(t, e)
			ctx, cancel := context.WithCancel(t.Context())
			asked := 0
			a.asked = func() {
				if asked++; asked > 20 {
					cancel() // otherwise it goes on for as long as the session lives
				}
			}
			if err := operator.Ask(ctx, "e", election.Request{By: "me", Transfer: "c"}); err != nil {
				t.Fatalf("asking %s: %v", id, err)
			}
			cancel()
			proof, err := e.Prove(t.Context(), nil)
			if err != nil || proof.Request == nil || proof.Request.Token != token {
				t.Errorf("%s sees %+v, %v", id, proof.Request, err)
			}
			if id == "a" {
				if err := e.Leave(t.Context(), nil, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestLockThatComesTwiceKeepsTheToken: the servers may carry out a request long after its sender
// has repeated it and got an answer, and locking a held key would change the index that is the
// token.
func TestLockThatComesTwiceKeepsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := storeOn(direct{newAgent(bubble.Clock(1))}, bubble.Clock(1)).Entry(t.Context(),
			election.Claim{Election: "e", ID: "a", Nonce: "a", Lease: LeaseMinDefault})
		token := locked(t, e)
		if again, err := e.(queue.Locker).Lock(t.Context()); again != 0 || err != nil {
			t.Errorf("the second time: token %d, %v", again, err)
		}
		if place, err := e.Place(t.Context()); place.Token != token || err != nil {
			t.Errorf("the store has token %d after %d, %v", place.Token, token, err)
		}
	})
}

// locked has a candidate enter an election without a leader, and returns the token with which it
// gets the lock.
func locked(t *testing.T, e queue.Entry) election.Token {
	t.Helper()
	_, created := e.Create(t.Context())
	entered := e.Enter(t.Context())
	_, placed := e.Place(t.Context())
	token, err := e.(queue.Locker).Lock(t.Context())
	if err := errors.Join(created, entered, placed, err); err != nil || token == 0 {
		t.Fatalf("token %d, %v", token, err)
	}
	return token
}
