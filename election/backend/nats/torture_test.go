//go:build conformance && linux

package nats

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/test/stores"
)

// TestNoTwoLeadUnderTorture: whatever happens to the server, its memory and the
// ways to it.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const lease, candidates = time.Second, 10
	server := stores.Start(t, "nats")
	url := newBucket(t, server.URL, "&lease-max=1s")
	links := storetest.Links{Server: server}
	var addrs []string
	for range candidates {
		link, err := server.Link()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(link.Close)
		links.Links, addrs = append(links.Links, link), append(addrs, link.Addr)
	}
	kv := bucket(t, url)
	faults := links.Faults(lease)
	faults["forget"] = func(t *testing.T, _ *rand.Rand) { // the last grant, whoever got it
		links.Isolate(func() {
			if _, err := kv.PutString(within(t), "torture", `{"token":1,"beat":1}`); err != nil {
				t.Error(err)
			}
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	storetest.Torture{Candidates: candidates, Faults: faults, Lease: lease, For: time.Minute, LeadersMin: 10,
		Open: func(ctx context.Context, i int) (election.Backend, func() error, error) {
			return Open(ctx, strings.Replace(url, server.Addr, addrs[i], 1))
		}}.Run(t)
}
