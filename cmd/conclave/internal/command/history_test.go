package command

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// TestKilledLeaderDoesNotLeadInTheHistory: nobody has come after it to note that
// its lease is over.
func TestKilledLeaderDoesNotLeadInTheHistory(t *testing.T) {
	store := electiontest.NewStore(nil)
	grant, err := store.Acquire(t.Context(), election.Claim{Election: "e", ID: "dora", Nonce: strings.Repeat("0", 32), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if !leads(context.Background(), store, "e", grant.Token) || leads(context.Background(), store, "e", grant.Token-1) {
		t.Error("who leads is not known")
	}
	store.Take("e")
	if leads(context.Background(), store, "e", grant.Token) {
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
