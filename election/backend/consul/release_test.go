package consul

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
)

// atTimes is an agent that does not answer while it is silent.
type atTimes struct {
	direct
	silent atomic.Bool
}

func (a *atTimes) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.silent.Load() {
		return silent{}.RoundTrip(r)
	}
	return a.direct.RoundTrip(r)
}

// TestReleaseThatFailedGoesOn (consul-C7): the agent waits for a server that is paused while a
// leader has to step down. The servers would keep its session for two leases.
func TestReleaseThatFailedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		its := bubble.Clock(1)
		agent := &atTimes{direct: direct{newAgent(its)}}
		leader, waiter := backendOn(agent, its), backendOn(agent.direct, its)
		claim := func(id string) election.Claim {
			return election.Claim{Election: "e", ID: id, Nonce: "nonce" + id, Lease: LeaseMinDefault}
		}
		grant, err := leader.Acquire(t.Context(), claim("a"))
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan election.Grant, 1)
		go func() {
			next, err := waiter.Acquire(t.Context(), claim("b"))
			if err != nil {
				t.Error(err)
			}
			waits <- next
		}()
		agent.silent.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), LeaseMinDefault/2)
		defer cancel()
		if err := leader.Release(ctx, grant); err == nil {
			t.Fatal("it was released without an answer")
		}
		agent.silent.Store(false)
		answered := its.Now()
		next := <-waits
		if took := its.Now().Sub(answered); took > LeaseMinDefault {
			t.Errorf("the waiter led %v after the agent had answered again", took)
		}
		if err := waiter.Release(t.Context(), next); err != nil {
			t.Error(err)
		}
		_ = leader.Close()
		_ = waiter.Close()
	})
}
