package zookeeper_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
)

// TestEnsureDoesNotRenewWithoutPause: the session proves each renewal by a request that may
// have been sent up to a quarter of the timeout before the call.
func TestEnsureDoesNotRenewWithoutPause(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(1))
	var renewals atomic.Int64
	third := make(chan struct{}) // from then on the session is older than what a renewal proves
	threeTimes := sync.OnceFunc(func() { close(third) })
	a, err := election.New(open(t, e.Servers()), "e", election.Options{ID: "a", Lease: 6 * time.Second, Once: true,
		OnEvent: func(e election.Event) {
			if e.Kind == election.EventRenewed {
				if renewals.Add(1+int64(e.Missed)) >= 3 {
					threeTimes()
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var before int64
	if err := a.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		select {
		case <-third:
			before = renewals.Load()
		case <-ctx.Done():
		}
		if err := lead.Ensure(ctx, lead.Lease()); !errors.Is(err, election.ErrLeaseTooShort) {
			t.Errorf("more than a lease: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := renewals.Load() - before; n > 40 {
		t.Errorf("%d renewals for one call of Ensure", n)
	}
}
