//go:build linux && conformance

package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/backend/s3"
	"github.com/conclave-project/conclave/test/stores"
)

// TestNoTwoLeadUnderTorture, whatever happens to the server and the links to it.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const lease, candidates = 2 * time.Second, 5
	server := stores.Start(t, "s3")
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	storetest.Torture{Candidates: candidates, Faults: links.Faults(lease), Lease: lease, For: time.Minute, LeadersMin: 5,
		Open: s3.Open, URL: func(i int) string { return strings.Replace(server.URL, server.Addr, ways[i].Addr, 1) + "&poll=100ms" }}.Run(t)
}
