package recipes

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// TestItemThatWasNotTakenIsNotHandedOut: it stays in the queue for others.
func TestItemThatWasNotTakenIsNotHandedOut(t *testing.T) {
	c, ctx := dialed(t, serve(t), client.Options{}), awaittest.Within(t)
	q := NewQueue(c, "/q", Options{})
	must(t, q.Put(ctx, []byte("item")))
	keep := []zk.ACL{{Perms: zk.PermAll &^ zk.PermDelete, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}
	_, err := c.SetACL(ctx, "/q", keep, -1)
	must(t, err)
	item, err := q.Take(ctx)
	if item != nil || !errors.Is(err, zk.ErrNoAuth) || client.OutcomeOf(err) != client.NotApplied {
		t.Errorf("took %q, %v (%v)", item, err, client.OutcomeOf(err))
	}
}
