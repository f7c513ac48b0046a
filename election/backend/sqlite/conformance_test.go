//go:build conformance && linux

package sqlite

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

func openBackend(t testing.TB, url string) election.Backend {
	t.Helper()
	backend, end, err := Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return backend
}

// emptyFile is on a disk, except for the test that elects thousands of times: each
// election waits for the disk.
func emptyFile(t testing.TB) string {
	if !strings.Contains(t.Name(), "Thousands") {
		return newURL(t)
	}
	dir, err := os.MkdirTemp("/dev/shm", "conclave-test-")
	if err != nil {
		return newURL(t) // a system without it
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return "sqlite://" + dir + "/elections.db"
}

func lookUp(t testing.TB, url, query string) string {
	t.Helper()
	var value string
	if err := openDB(t, url, "_pragma=busy_timeout(20000)").QueryRowContext(within(t), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func TestSQLitePassesTheSuite(t *testing.T) {
	suite(t, "SQLite "+lookUp(t, newURL(t), "select sqlite_version()"), emptyFile)
}

// TestSQLiteWithARollbackJournalPassesTheSuite, in a file that a program has made.
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
