//go:build conformance && linux

package postgres

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/test/stores"
)

// TestNoTwoLeadUnderTorture, whatever happens to the server, its memory and the
// links to it.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const lease, candidates = time.Second, 10
	server := stores.Start(t, "postgres")
	plain := newDatabase(t, server.URL)
	url := plain + "&lease-max=1s"
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	ddl, err := DDL("")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, plain, strings.SplitAfter(strings.TrimSpace(ddl), ";\n")...)
	faults := links.Faults(lease)
	put := func(t *testing.T, text string) {
		execute(t, plain, "insert into conclave_elections as e (name, version, record) values ('torture', gen_random_uuid(), '"+text+"') "+
			"on conflict (name) do update set version = excluded.version, record = excluded.record")
	}
	put(t, storetest.OfAFastClock(t))
	faults["forget"] = func(t *testing.T, _ *rand.Rand) { // the last grant
		links.Isolate(func() {
			put(t, storetest.WithoutLastGrant(t, lookUp(t, plain, "select record::text from conclave_elections where name = 'torture'")))
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	storetest.Torture{Candidates: candidates, Faults: faults, Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(i int) string { return strings.Replace(url, server.Addr, ways[i].Addr, 1) }}.Run(t)
}

// TestNoMoreHoldThanMay: places and a lock for readers and writers, while the
// server is killed and links are partitioned and slow.
func TestNoMoreHoldThanMay(t *testing.T) {
	const lease, candidates = time.Second, 12
	server := stores.Start(t, "postgres")
	url := newDatabase(t, server.URL) + "&lease-max=1s"
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	storetest.Torture{Candidates: candidates, Faults: links.Faults(lease), Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(i int) string { return strings.Replace(url, server.Addr, ways[i].Addr, 1) }}.Holders(t)
}
