// Package sqlite elects among the processes of one machine, in a SQLite database
// on a local disk.
//
// In goes a *sql.DB of any SQLite driver, or a URL; every election is one row of a
// table that any number of elections share:
//
//	create table conclave_elections (
//	    name    text not null primary key,  -- of the election
//	    version text not null,  -- of the record, random, new with each write
//	    record  text not null,  -- JSON: who leads, with which token, who is next
//	    changed text not null   -- when, for people
//	)
//
// The table is made when it is needed. What always holds:
//
//	sqlite-Q1  A write is one transaction that takes the database's lock before it
//	           reads (begin immediate), compares the version, sets the record and
//	           commits. Nothing counts before the commit was answered. A
//	           connection that somebody has left within a transaction is refused:
//	           nothing would be committed.
//	sqlite-Q2  A commit that gives out a token is synced to the disk first, with
//	           whatever pragma synchronous. In WAL mode the renewals of a database
//	           that Open has opened are not: what a power failure takes back was
//	           said by processes that have ended with it.
//	sqlite-Q3  A request waits for the lock until its context or Options.Timeout
//	           ends, whatever pragma busy_timeout.
//	sqlite-Q4  A connection serves only as long as the file that it has opened is
//	           the one with the database's name. Of a file that was removed or
//	           replaced its last leader learns with its next renewal. A connection
//	           of a program's own pool may be older than the file that has the
//	           name: its first write counts when it is found in a file that was
//	           opened by that name just then (attach database), and what it reads
//	           before that is read there.
//	sqlite-Q5  What no other process could see or lock is refused: a database in
//	           memory, pragma locking_mode=exclusive, and network file systems, as
//	           far as they are known (those of Linux, and FUSE but for kinds that
//	           are local); a file with several hard links, or that is mounted by
//	           itself, as into a container: SQLite names its log after it, and
//	           those who use another name have another log.
//
// Not promised:
//
//   - A process that is frozen within a write keeps the lock, and nobody is elected
//     until it goes on or is killed; so does anybody who holds a transaction open.
//     A renewal in WAL mode takes 0.11 ms.
//   - A copy that is put in place of the file under a leader elects a second one
//     until that leader's next renewal. A database that is restored while nobody
//     leads is well: tokens are not less than the wall clock in milliseconds.
//   - The locks are the kernel's POSIX locks. A process that opens and closes the
//     file by itself (to copy it), or opens it with two SQLite libraries, drops its
//     own. Copy with "vacuum into", give New the *sql.DB that the program has
//     anyway, and see OFDLocking of modernc.org/sqlite. Drivers can be told to take
//     no locks (nolock=1, immutable=1, vfs=unix-none), which cannot be seen.
//
// SQLite tells nobody of changes: candidates poll, every 100 ms by default. A poll
// reads one row by its key, 34 µs; five times that through a connection of New that
// has written nothing yet. (Pragma data_version would cost
// less, is known to one connection alone, and changes with every commit of
// the application.)
package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// TableDefault is the name of the table unless another is chosen.
const TableDefault = "conclave_elections"

const (
	timeoutDefault = 5 * time.Second
	pollDefault    = 100 * time.Millisecond
)

// Options of a backend. The zero value is good.
type Options struct {
	// Table is the name of the table. Default TableDefault.
	Table string
	// Timeout is how long one request may take, most of it waiting for the lock of
	// the database. Default 5 s.
	Timeout time.Duration
	// Poll is the pause between two looks of a candidate that waits, each one
	// select by primary key. Default 100 ms.
	Poll time.Duration
}

// New returns a backend on a database, which has its file alone or with an
// application. It makes no connection before it is used. The database stays the
// caller's: Close of the backend does not close it, and its pragmas and journal
// stay as they are. One connection is taken for each request.
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

// Traits names the store and says what it rests on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "sqlite", LeaseMin: 200 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "there is none: one machine, one file on a local disk. A process that is frozen within a write holds " +
			"everybody up until it goes on or is killed; a copy put in place of the file under a leader elects a second " +
			"one until the leader's next renewal",
		Renewal: "1 transaction of one row; with WAL no sync, else two",
		Waiting: "1 select by primary key per poll",
		Notice:  "poll every 100 ms, or Options.Poll",
	}}
}
