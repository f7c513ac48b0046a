package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// TestElectionNeedsNoRightsAboveItsRoot: the root of the tree is locked, as is
// common, and so is everything between it and the election's root.
func TestElectionNeedsNoRightsAboveItsRoot(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := e.Client(t, func(o *client.Options) {
		o.Auth = []client.Credential{{Scheme: "digest", Data: []byte("admin:x")}}
	})
	for _, path := range []string{"/conclave", "/conclave/elections"} {
		if _, _, err := admin.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	locked := []zk.ACL{{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "world", ID: "anyone"}},
		{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "auth"}}}
	for _, path := range []string{"/", "/conclave"} {
		if _, err := admin.SetACL(ctx, path, locked, -1); err != nil {
			t.Fatal(err)
		}
	}
	s, err := newStore(e.Servers(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := queue.New(s, queue.Options{Close: s.close})
	defer b.Close()
	claim := election.Claim{Election: "billing", ID: "a", Nonce: "0123456789abcdef0123456789abcdef", Lease: time.Second}
	if _, err = b.Acquire(ctx, claim); err != nil {
		t.Error(err)
	}
}
