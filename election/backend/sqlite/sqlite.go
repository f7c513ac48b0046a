// Package sqlite elects among the processes of one machine, in a SQLite database
// on a local disk.
//
// New takes a *sql.DB of any SQLite driver, Open a URL. Every election is one row of a table that
// any number of elections share:
//
//	create table conclave_elections (
//	    name    text not null primary key,  -- of the election
//	    version text not null,  -- of the record, random, new with each write
//	    record  text not null,  -- JSON: who leads, with which token, who is next
//	    changed text not null   -- when, for people
//	)
//
// The table is created when it is needed. What always holds:
//
//	sqlite-Q1  A write is one transaction that takes the database's lock before it reads (begin
//	           immediate), compares the version, sets the record and commits. Nothing counts
//	           before the commit was answered. A connection that was left inside a transaction is
//	           refused: nothing would be committed.
//	sqlite-Q2  A commit that hands out a token is synced to the disk first, whatever pragma
//	           synchronous says. In WAL mode the renewals of a database that Open has opened are
//	           not synced: a power failure that loses them also ends the processes that wrote
//	           them.
//	sqlite-Q3  A request waits for the lock until its context or Options.Timeout ends, whatever
//	           pragma busy_timeout says.
//	sqlite-Q4  A connection is used only as long as the file that it has opened is the one with
//	           the database's name. If a file was removed or replaced, its last leader learns that
//	           with its next renewal. A connection of a program's own pool may be older than the
//	           file that has the name: its first write counts only when it is found in a file that
//	           was opened by that name just then (attach database), and what it reads before that
//	           is read there.
//	sqlite-Q5  What no other process could see or lock is refused: a database in memory, pragma
//	           locking_mode=exclusive, and all known network file systems (those of Linux, and
//	           FUSE except for kinds that are local). So is a file with several hard links, or one
//	           that is mounted by itself, as into a container: SQLite names its log after the
//	           file, and processes that use another name have another log.
//
// The following is not covered:
//
//   - A process that is frozen during a write keeps the lock, and nobody is elected until it
//     resumes or is killed. The same goes for a process that holds a transaction open. A renewal
//     in WAL mode takes 0.11 ms.
//   - A copy that is put in place of the file under a leader elects a second one until that
//     leader's next renewal. Restoring a database while nobody leads is safe: tokens are not less
//     than the wall clock in milliseconds.
//   - The locks are the kernel's POSIX locks. A process that itself opens and closes the file (to
//     copy it), or opens it with two SQLite libraries, drops its own locks. Copy with "vacuum
//     into", pass to New the *sql.DB that the program already has, and see OFDLocking of
//     modernc.org/sqlite. Drivers can be told to take no locks (nolock=1, immutable=1,
//     vfs=unix-none), which cannot be detected.
//
// SQLite tells nobody of changes: candidates poll, every 100 ms by default. A poll reads one row
// by its key, which takes 34 µs, or five times that through a connection of New that has written
// nothing yet. (Pragma data_version would cost less, but it belongs to a single connection and
// changes with every commit of the application.)
package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// TableDefault is the default name of the table.
const TableDefault = "conclave_elections"

const (
	timeoutDefault = 5 * time.Second
	pollDefault    = 100 * time.Millisecond
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Table is the name of the table. Default TableDefault.
	Table string
	// Timeout is how long one request may take, including the wait for the lock of the database.
	// Default 5 s.
	Timeout time.Duration
	// Poll is the pause between two polls of a waiting candidate. Each poll is one select by
	// primary key. Default 100 ms.
	Poll time.Duration
}

// New returns a backend on a database, whose file it may share with an application. It connects
// on first use. The database stays the caller's: Close of the backend does not close it, and its
// pragmas and journal mode stay as they are. Each request takes one connection.
func New(db *sql.DB, options Options) (*record.Backend, error) {
	s, err := newStore(db, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

func newStore(db *sql.DB, options Options) (*store, error) {
	if options.Timeout < 0 || options.Poll < 0 {
		return nil, errNegative
	}
	if options.Table == "" {
		options.Table = TableDefault
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	if options.Poll == 0 {
		options.Poll = pollDefault
	}
	s := &store{db: db, options: options, files: newFiles()}
	var err error
	if s.sql, err = statementsFor("main", options.Table); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if s.beside, err = statementsFor(besideSchema, options.Table); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return s, nil
}

var errNegative = errors.New("sqlite: Timeout and Poll must not be negative; leave them out for the defaults")

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "sqlite", LeaseMin: 200 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "there is none: one machine, one file on a local disk. A process that is frozen during a " +
			"write blocks everybody until it resumes or is killed; if a copy replaces the file under a leader, " +
			"two lead until the leader's next renewal",
		Renewal: "1 transaction of one row; no sync with WAL, otherwise two",
		Waiting: "1 select by primary key per poll",
		Notice:  "poll every 100 ms, or Options.Poll",
	}}
}
