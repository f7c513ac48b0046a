//go:build linux && conformance

package dynamodb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/dynamodb"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/test/stores"
)

// TestNoTwoLeadUnderTorture, whatever happens to the server and the links to it.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const candidates = 5
	server := stores.Start(t, "dynamodb")
	url := server.URL + "&poll=100ms"
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	storetest.Torture{Candidates: candidates, Faults: links.Faults(lease), Lease: lease, For: time.Minute, LeadersMin: 5,
		Open: dynamodb.Open, URL: func(i int) string { return strings.Replace(url, server.Addr, ways[i].Addr, 1) }}.Run(t)
}
