//go:build conformance && linux

package sqlite

import (
	"strconv"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func openBackend(t testing.TB, url string) election.Backend {
	return storetest.Opener(Open).Open(t, url)
}

// emptyFile names a database that does not exist yet.
func emptyFile(t testing.TB) string { return "sqlite://" + storetest.Dir(t) + "/elections.db" }

func lookUp(t testing.TB, url, query string) string {
	t.Helper()
	var value string
	if err := openDB(t, url, "_pragma=busy_timeout(20000)").QueryRowContext(awaittest.Within(t), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func TestSQLitePassesTheSuite(t *testing.T) {
	suite(t, "SQLite "+lookUp(t, newURL(t), "select sqlite_version()"), emptyFile)
}

// TestSQLiteWithARollbackJournalPassesTheSuite in a file that a program has made.
func TestSQLiteWithARollbackJournalPassesTheSuite(t *testing.T) {
	suite(t, "SQLite "+lookUp(t, newURL(t), "select sqlite_version()")+", rollback journal", func(t testing.TB) string {
		url := emptyFile(t)
		execute(t, url, "pragma journal_mode = delete", "create table theirs (a)")
		return url
	})
}

func suite(t *testing.T, title string, empty func(testing.TB) string) {
	electiontest.Run(t, electiontest.Suite{
		Open: openBackend, URL: empty, Store: title, OpenTroubled: openTroubled,
		Delete: func(t testing.TB, url, name string) {
			execute(t, url, "delete from conclave_elections where name = '"+name+"'")
		},
		Held: held,
		Left: func(t testing.TB, url string) int {
			count, err := strconv.Atoi(lookUp(t, url, "select count(*) from conclave_elections "+
				"where record ->> '$.holder' is not null or record ->> '$.next' is not null or record ->> '$.request' is not null"))
			if err != nil {
				t.Fatal(err)
			}
			return count
		},
	})
}

// held reports whether nobody can write, because a transaction takes longer than others do.
func held(t testing.TB, url string) bool {
	t.Helper()
	db := openDB(t, url, "_pragma=busy_timeout(300)")
	defer db.Close()
	conn, err := db.Conn(awaittest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(awaittest.Within(t), "begin exclusive"); err != nil {
		return true
	}
	if _, err := conn.ExecContext(awaittest.Within(t), "rollback"); err != nil {
		t.Fatal(err)
	}
	return false
}
