//go:build conformance && linux

package nats

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

// TestNoTwoLeadUnderTorture, whatever happens to the servers and the links to
// them, and to the memory of a standalone server.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	for _, test := range []struct {
		store, parameters string
		forgets           bool
	}{{"nats", "", true}, {"nats-cluster", "&replicas=3", false}} {
		t.Run(test.store, func(t *testing.T) {
			server := stores.Start(t, test.store)
			url := newBucket(t, server.URL, "&lease-max=1s"+test.parameters)
			torture(t, server, url, test.forgets)
		})
	}
}

func torture(t *testing.T, server *stores.Server, url string, forgets bool) {
	const lease, candidates = time.Second, 10
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	kv, connection := bucket(t, url), operator(t, url).Conn()
	faults := links.Faults(lease)
	if forgets {
		if _, err := kv.PutString(awaittest.Within(t), "torture", storetest.OfAFastClock(t)); err != nil {
			t.Fatal(err)
		}
		faults["forget"] = func(t *testing.T, _ *rand.Rand) { // the last grant
			links.Isolate(func() {
				was, err := kv.Get(awaittest.Within(t), "torture")
				if err == nil {
					_, err = kv.PutString(awaittest.Within(t), "torture", storetest.WithoutLastGrant(t, string(was.Value())))
				}
				if err != nil {
					t.Error(err)
				}
				if err := server.Restart(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	} else {
		faults["stepDown"] = func(*testing.T, *rand.Rand) { // the leader of the stream, if there is one now
			_, _ = connection.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_"+kv.Bucket(), nil, lease)
		}
	}
	storetest.Torture{Candidates: candidates, Faults: faults, Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(i int) string {
			return strings.Replace(url, strings.TrimPrefix(server.URL, "nats://"), ways[i].Addr, 1)
		}}.Run(t)
}
