//go:build conformance && linux

package redis

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/redis/go-redis/v9"
)

// TestNoTwoLeadUnderTorture, whatever happens to the server, its memory and the
// links to it.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const lease, candidates = time.Second, 10
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, lease, true)
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	faults := links.Faults(lease)
	put := func(t *testing.T, text string) {
		operator(t, url, "hset", keyOf(url), "torture", newVersion()+"  "+text)
	}
	put(t, storetest.OfAFastClock(t))
	faults["flush"] = func(t *testing.T, random *rand.Rand) {
		operator(t, url, "flushall")
		if random.IntN(2) == 0 {
			put(t, storetest.OfAFastClock(t))
		}
	}
	faults["forget"] = func(t *testing.T, _ *rand.Rand) { // the last grant
		links.Isolate(func() {
			if text, err := operator(t, url, "hget", keyOf(url), "torture").Text(); err == nil {
				put(t, storetest.WithoutLastGrant(t, strings.SplitN(text, " ", 3)[2]))
			} else if !errors.Is(err, redis.Nil) {
				t.Error(err)
			}
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	storetest.Torture{Candidates: candidates, Faults: faults, BeginAgain: []string{"flush"}, Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(i int) string { return strings.Replace(url, server.Addr, ways[i].Addr, 1) }}.Run(t)
}
