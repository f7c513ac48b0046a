package election_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func TestMetadataBeyondItsLimitIsRefused(t *testing.T) {
	store := electiontest.NewStore(nil)
	most := make([]byte, election.MetadataMax)
	if _, err := election.New(store, "a", election.Options{Metadata: most}); err != nil {
		t.Errorf("%d bytes: %v", len(most), err)
	}
	if _, err := election.New(store, "a", election.Options{Metadata: append(most, 0)}); !errors.Is(err, election.ErrInvalid) {
		t.Errorf("a byte too much: %v", err)
	}
}

// TestMetadataIsThatOfTheOptions in the leadership, and for candidates that try or wait for
// a leader, even if the caller changes the bytes later.
func TestMetadataIsThatOfTheOptions(t *testing.T) {
	store, want := electiontest.NewStore(nil), []byte("10.0.0.7:8080\xff")
	given := bytes.Clone(want)
	leader := elector(t, store, election.Options{ID: "a", Metadata: given})
	given[0] = 'X'
	leader.Options().Metadata[1] = 'X'
	err := leader.Try(awaittest.Within(t), func(ctx context.Context, lead election.Leadership) error {
		lead.Metadata()[2] = 'X'
		if got := lead.Metadata(); !bytes.Equal(got, want) {
			t.Errorf("the leadership says %q", got)
		}
		other := elector(t, store, election.Options{ID: "b"})
		held := (*election.HeldError)(nil)
		if err := other.Try(ctx, unexpected(t)); !errors.As(err, &held) || !bytes.Equal(held.View.Metadata, want) {
			t.Errorf("Try: %v, %+v", err, held)
		}
		if view, err := other.WaitLeader(ctx); err != nil || !bytes.Equal(view.Metadata, want) {
			t.Errorf("WaitLeader: %+v, %v", view, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := (election.Leadership{}).Metadata(); len(got) != 0 {
		t.Errorf("the zero Leadership says %q", got)
	}
}

func TestViewsThatShowTheSameAreEqual(t *testing.T) {
	view := func(edit func(*election.View)) election.View {
		v := election.View{Leader: "a", Token: 3, Metadata: []byte("m"), Waiters: []election.Waiter{{ID: "b", Metadata: []byte("n")}}}
		edit(&v)
		return v
	}
	same := view(func(*election.View) {})
	if !same.Equal(view(func(v *election.View) { v.Err = errors.New("not now") })) {
		t.Error("an error makes views differ")
	}
	for i, edit := range []func(*election.View){
		func(v *election.View) { v.Leader = "b" },
		func(v *election.View) { v.Token = 4 },
		func(v *election.View) { v.Metadata = nil },
		func(v *election.View) { v.Waiters = nil },
		func(v *election.View) { v.Waiters[0].ID = "c" },
		func(v *election.View) { v.Waiters[0].Metadata = nil },
	} {
		if same.Equal(view(edit)) {
			t.Errorf("difference %d is not seen", i)
		}
	}
	if same.Waits("a") || !same.Waits("b") {
		t.Error("who waits is not told")
	}
}
