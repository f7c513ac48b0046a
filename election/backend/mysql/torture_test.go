//go:build conformance && linux

package mysql

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/go-sql-driver/mysql"
)

// TestNoTwoLeadUnderTorture, whatever happens to the server, its memory and the
// links to it.
func TestNoTwoLeadUnderTorture(t *testing.T) {
	const lease, candidates = time.Second, 10
	server := stores.Start(t, "mariadb")
	plain := newDatabase(t, server)
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	ddl, err := DDL("")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, plain, strings.SplitAfter(strings.TrimSpace(ddl), ";\n")...)
	faults := links.Faults(lease)
	beside := connect(t, plain, func(*mysql.Config) {})
	beside.SetMaxIdleConns(0) // the server is restarted while it is used
	put := func(t *testing.T, text string) {
		if _, err := beside.ExecContext(awaittest.Within(t), "insert into conclave_elections (name, version, record) values ('torture', ?, ?) "+
			"on duplicate key update version = values(version), record = values(record)", newVersion(), text); err != nil {
			t.Fatal(err)
		}
	}
	put(t, storetest.OfAFastClock(t))
	faults["forget"] = func(t *testing.T, _ *rand.Rand) { // the last grant
		links.Isolate(func() {
			var text string
			err := beside.QueryRowContext(awaittest.Within(t), "select record from conclave_elections where name = 'torture'").Scan(&text)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				t.Fatal(err)
			}
			put(t, storetest.WithoutLastGrant(t, text))
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	storetest.Torture{Candidates: candidates, Faults: faults, Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(i int) string {
			return strings.Replace(plain, server.Addr, ways[i].Addr, 1) + "?lease-max=1s&poll=100ms"
		}}.Run(t)
}

// TestNoMoreHoldThanMay: places and a lock for readers and writers, while the
// server is killed and links are partitioned and slow.
func TestNoMoreHoldThanMay(t *testing.T) {
	const lease, candidates = time.Second, 12
	server := stores.Start(t, "mariadb")
	plain := newDatabase(t, server)
	ways := server.Links(t, candidates)
	links := storetest.LinksTo(server, ways)
	storetest.Torture{Candidates: candidates, Faults: links.Faults(lease), Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(i int) string {
			return strings.Replace(plain, server.Addr, ways[i].Addr, 1) + "?lease-max=1s&poll=100ms"
		}}.Holders(t)
}
