// Package mysql elects on MySQL, 8.0 and later, and on MariaDB, 10.5 and later.
//
// New takes a *sql.DB of github.com/go-sql-driver/mysql, Open a URL. Every election is one row of
// a table that any number of elections share:
//
//	create table conclave_elections (
//	    name    varbinary(200) not null primary key,  -- of the election
//	    version varbinary(32) not null,  -- of the record, random, new with each write
//	    record  json not null,           -- who leads, with which token, who is next
//	    changed timestamp(3) not null default current_timestamp(3)  -- for people
//	) engine=InnoDB
//
// The table is created when it is needed; see DDL if your program may not do that. The name is
// kept as bytes: a collation would take "Nightly" for "nightly", or a name with a space at its
// end for one without. What always holds:
//
//	mysql-M1  A write is one statement that compares the version and sets the record, and that
//	          commits by itself. It needs no session and holds no lock between requests: a
//	          candidate that freezes blocks nobody.
//	mysql-M2  A write is sent once, on a connection reserved for it, so database/sql cannot retry
//	          it on another. A proxy may still send it twice (ProxySQL's
//	          query_retries_on_failure). The version is random and chosen in advance, so the
//	          second write changes nothing, and reading the row shows that the first one was
//	          carried out.
//	mysql-M3  The clock of the database decides nothing. It fills the column "changed", for
//	          people; candidates use their own clocks.
//	mysql-M4  After a restart, a failover or a restore of the server nobody is elected for
//	          LeaseMax; leaders whose row is still there go on. So what the server has forgotten
//	          has run out: commits that innodb_flush_log_at_trx_commit left in memory, or that an
//	          asynchronous replica never received. A server that was demoted is recognized by the
//	          time at which read_only or super_read_only was last set. On MariaDB only the fact
//	          that it was set since the start is known, so restart a MariaDB server before it is
//	          promoted for a second time, or if it was started read-only. (The row with the empty
//	          name records which start of which server has been watched that long. A start is
//	          identified to the second, so create no table in the first second of a server.)
//	mysql-M5  A connection that would lose writes is refused: to a server that is read-only, as
//	          replicas are; with autocommit off; or with binlog_format=STATEMENT, with which a
//	          replica would evaluate the comparison for itself. Each write checks the first two
//	          itself: even a leader that only renews loses a server that is made read-only, also
//	          if its user may write there (READ ONLY ADMIN, SUPER).
//
// Two cases are not covered. Two servers that both accept writes, because the old primary is
// partitioned together with some of the clients, elect one leader each. A failover must stop the
// old primary first, or make it read-only; setting read_only is enough. Semi-synchronous
// replication does not stop it: after its timeout a primary goes on alone. In a Galera cluster a
// write is compared on all nodes and a read waits for what is on its way to its node, but each
// node counts as a server of its own: make all candidates use one node as long as it lives, as
// proxies with one writer do. A proxy must not send reads to replicas. The second case is a table
// that an operator drops or truncates under a leader: a newly created table is taken for the
// first one.
//
// Why not GET_LOCK: such a lock ends with its connection, which its holder may
// notice much later; it is not replicated, and it has no token.
//
// The proofs in docs/backends.md were run on MariaDB. For MySQL the statements rely on its
// reference manual.
//
// MySQL tells nobody of changes: candidates poll, every 500 ms by default.
package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/record"
)

// TableDefault is the default name of the table.
const TableDefault = "conclave_elections"

const (
	timeoutDefault = 5 * time.Second
	pollDefault    = 500 * time.Millisecond
	leaseMaxMin    = time.Second
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Table is the name of the table, which may have a database before it
	// ("app.elections"). Default TableDefault.
	Table string
	// LeaseMax is the longest lease that may be asked for, and how long nobody is elected after a
	// restart or failover of the server. All candidates that share the table, in any election,
	// must use the same value, which nothing checks: the first that has waited for its own
	// LeaseMax ends the wait for all. Default 15 s, at least 1 s.
	LeaseMax time.Duration
	// Timeout is how long one statement may take. Default 5 s.
	Timeout time.Duration
	// Poll is the pause between two polls of a waiting candidate. Each poll is one select by
	// primary key. Default 500 ms.
	Poll time.Duration
}

// New returns a backend on a database of github.com/go-sql-driver/mysql. It connects on first
// use. The database stays the caller's: Close of the backend does not close it.
func New(db *sql.DB, options Options) (*record.Backend, error) {
	s, err := newStore(db, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

func newStore(db *sql.DB, options Options) (*store, error) {
	if options.LeaseMax != 0 && options.LeaseMax < leaseMaxMin {
		return nil, fmt.Errorf("mysql: LeaseMax %v (lease-max in the URL): at least %v is needed, because servers tell their start in seconds",
			options.LeaseMax, leaseMaxMin)
	}
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
	s := &store{db: db, options: options, watch: incarnation.NewWatch(options.LeaseMax)}
	var err error
	if s.sql, err = statementsFor(options.Table); err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	return s, nil
}

var errNegative = errors.New("mysql: Timeout and Poll must not be negative; leave them out for the defaults")

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "mysql", LeaseMin: 200 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "nobody is elected for LeaseMax (15 s) after a restart or failover; leaders go on if their " +
			"row is there. A MariaDB server has to be restarted before it is promoted again. Grants that an " +
			"asynchronous replica, or semi-synchronous replication after its timeout, may have lost have run " +
			"out by then. An old primary that still takes writes from some clients elects a second leader. " +
			"Galera: all candidates must use one node. All candidates that share the table, in any election, " +
			"need the same LeaseMax",
		Renewal: "1 statement, 1 commit (with a sync if innodb_flush_log_at_trx_commit=1)",
		Waiting: "1 select by primary key per poll",
		Notice:  "poll every 500 ms, or Options.Poll",
	}}
}
