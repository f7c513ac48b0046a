//go:build linux && conformance

package gcs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/gcs"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/test/stores"
)

// TestNoTwoLeadUnderTorture: the emulator stalls, links to it are partitioned and slow.
// It is not killed, because it would forget all elections, which the service does not.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const candidates = 5
	server := stores.Start(t, "gcs")
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	faults := links.Faults(gcs.LeaseMin)
	delete(faults, "restart")
	storetest.Torture{Candidates: candidates, Faults: faults, Lease: gcs.LeaseMin, For: 2 * time.Minute, LeadersMin: 5,
		Open: gcs.Open, URL: func(i int) string { return strings.Replace(server.URL, server.Addr, ways[i].Addr, 1) + "&poll=100ms" }}.Run(t)
}
