//go:build linux && conformance

package azureblob_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/azureblob"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestNoTwoLeadUnderTorture: the service stalls, links to it are partitioned
// and slow, leases are broken. The emulator is not killed, because it would
// forget leases, which the service does not.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const candidates = 4
	server := start(t)
	url := containers(server)(t) + "&poll=200ms"
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	operator := open(t, url).(*azureblob.Backend) // creates the container
	url = strings.Replace(url, "create=true", "create=false", 1)
	faults := links.Faults(azureblob.LeaseMin)
	delete(faults, "restart")
	faults["break"] = func(t *testing.T, _ *rand.Rand) {
		left, err := operator.Break(awaittest.Within(t), "torture")
		t.Logf("broken, %v left, %v", left, err) // there may be no lease to break
	}
	storetest.Torture{Candidates: candidates, Faults: faults, Lease: azureblob.LeaseMin, For: 3 * time.Minute,
		LeadersMin: 4,
		Open:       azureblob.Open, URL: func(i int) string { return strings.Replace(url, server.Addr, ways[i].Addr, 1) }}.Run(t)
}
