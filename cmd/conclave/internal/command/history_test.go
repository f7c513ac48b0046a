package command

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// TestKilledLeaderDoesNotLeadInTheHistory has nobody after the leader who could note
// that its lease is over.
func TestKilledLeaderDoesNotLeadInTheHistory(t *testing.T) {
	store := electiontest.NewStore(nil)
	grant, err := store.Acquire(t.Context(), election.Claim{Election: "e", ID: "dora", Nonce: strings.Repeat("0", 32), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if !leads(context.Background(), store, "e", election.Tenure{Token: grant.Token}) || leads(context.Background(), store, "e", election.Tenure{Token: grant.Token - 1}) {
		t.Error("who leads is not known")
	}
	store.Take("e")
	if leads(context.Background(), store, "e", election.Tenure{Token: grant.Token}) {
		t.Error("dora leads still")
	}
	var out strings.Builder
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if err := historyTable(&out, []election.Tenure{{Leader: "dora", Token: 7, Since: since, Reason: "expired"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(strings.TrimSpace(out.String()), "expired") {
		t.Error(out.String())
	}
}

// viewed is a backend that shows one view.
type viewed struct {
	election.Backend
	view election.View
}

func (s viewed) Observe(context.Context, string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) { yield(s.view, nil) }
}

// TestLeaderWithoutATokenLeadsInTheHistory has a leader of client-go after one of
// Conclave's.
func TestLeaderWithoutATokenLeadsInTheHistory(t *testing.T) {
	store := viewed{view: election.View{Leader: "old", Token: 7}}
	if !leads(t.Context(), store, "e", election.Tenure{Leader: "old"}) {
		t.Error("the one that leads does not")
	}
	if leads(t.Context(), store, "e", election.Tenure{Leader: "older"}) {
		t.Error("another one leads")
	}
}
