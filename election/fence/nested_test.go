package fence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/fence"
)

// A handler that was called with a token, and that leads an election for what it does itself, sends
// its own token, and nothing once it no longer leads. A token that is added inside a leadership
// takes precedence over the leadership's.
func TestInnermostTokenIsSent(t *testing.T) {
	store := electiontest.NewStore(nil)
	e, err := election.New(store, "inner", election.Options{ID: "a", Lease: time.Second, Once: true})
	if err != nil {
		t.Fatal(err)
	}
	called := fence.WithToken(t.Context(), 4711)
	err = e.Run(called, func(ctx context.Context, lead election.Leadership) error {
		if token, err := fence.TokenOf(ctx); err != nil || token != lead.Token() {
			t.Errorf("inside of a call with 4711, leading with %d: %d, %v", lead.Token(), token, err)
		}
		if token, err := fence.TokenOf(fence.WithToken(ctx, 8)); err != nil || token != 8 {
			t.Errorf("given 8: %d, %v", token, err)
		}
		store.Take("inner")
		<-ctx.Done()
		if token, err := fence.TokenOf(ctx); err == nil {
			t.Errorf("it leads no more, and %d is sent", token)
		}
		return nil
	})
	if !errors.Is(err, election.ErrLost) {
		t.Error(err)
	}
	if token, err := fence.TokenOf(called); err != nil || token != 4711 {
		t.Errorf("outside: %d, %v", token, err)
	}
}
