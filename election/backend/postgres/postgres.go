// Package postgres elects on PostgreSQL, 13 and later.
//
// New takes a *sql.DB with any driver, Open a URL. Every election is one row of a table that any
// number of elections share:
//
//	create table conclave_elections (
//	    name     text primary key,      -- of the election
//	    version  uuid not null,         -- of the record, random, new with each write
//	    record   jsonb not null,        -- who leads, with which token, who is next
//	    changed  timestamptz not null default clock_timestamp()  -- for people
//	);
//
// The table is created when it is needed; see DDL if your program may not do that. What always
// holds:
//
//	postgres-P1  A write is one statement that compares the version and sets the
//	             record. It needs no transaction, no session and no lock that
//	             outlives it, so it may go through any pool, PgBouncer in
//	             transaction mode included.
//	postgres-P2  The version of a write is random and chosen before it is sent. So a version never
//	             comes back, whatever is deleted, restored or made again; and a statement that a
//	             driver sends twice takes effect once.
//	postgres-P3  A commit is on disk before it is answered: every write turns synchronous_commit
//	             on for itself if a role or database has it off.
//	postgres-P4  The clock of the database decides nothing. It fills the column "changed", for
//	             people. If that clock were set forward, a lease judged by it would end early for
//	             everybody, under a leader that still leads. So candidates use their own clocks.
//	postgres-P5  After a restart, a failover or a restore of the server nobody is elected for
//	             LeaseMax; leaders whose row is still there go on. A failover to an asynchronous
//	             standby may lose the last commits: what they granted has run out by then. (The
//	             row with the empty name records which start of the server, and which timeline,
//	             has been watched that long.)
//
// Two cases are not covered. Two servers that both accept writes, because the old primary is
// partitioned together with some of the clients, elect one leader each. Configure synchronous
// standbys, or a failover that stops the old primary first, as Patroni does; tokens protect
// fenced resources in any case. The second case is a table that an operator drops or truncates
// under a leader, or that a standby did not have yet when it was promoted: a newly created table
// is taken for the first one.
//
// Why not advisory locks: a lock of a session ends with the connection, which its holder may
// notice much later or, behind a pool, never: pools recycle connections by age, PgBouncer in
// transaction mode hands the session to others, and the leader goes on at the same time as the
// next one. A lock has no lease and no token. A row has both.
//
// News comes by LISTEN on a connection of its own. If there is none, or if it does not receive
// what NOTIFY sends (behind PgBouncer in transaction mode), candidates poll every second.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/backend/internal/watchhub"
	"github.com/conclave-project/conclave/election/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// TableDefault is the default name of the table.
const TableDefault = "conclave_elections"

const (
	timeoutDefault = 5 * time.Second
	pollPause      = time.Second
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Table is the name of the table, which may have a schema before it
	// ("app.elections"). Default TableDefault.
	Table string
	// LeaseMax is the longest lease that may be asked for, and how long nobody is elected after a
	// restart or failover of the server. All candidates that share the table, in any election,
	// must use the same value, which nothing checks: the first that has waited for its own
	// LeaseMax ends the wait for all. Default 15 s.
	LeaseMax time.Duration
	// Timeout is how long one statement may take. Default 5 s.
	Timeout time.Duration
	// Listen is where to connect for LISTEN: directly to the server, not through PgBouncer. Nil
	// means as the driver connects, if that is pgx.
	Listen *pgx.ConnConfig
	// Poll turns off LISTEN.
	Poll bool
}

// New returns a backend on a database. It connects on first use. The database stays the caller's:
// Close of the backend does not close it. If its connection string names several servers, give it a
// ConnectTimeout that lets all be tried within a quarter of the lease: while the first is silent, no
// request comes to the next otherwise.
func New(db *sql.DB, options Options) (*record.Backend, error) {
	s, err := newStore(db, options)
	if err != nil {
		return nil, err
	}
	return s.backend(func() error { return nil }), nil
}

// NewPool is New for a pgx pool. Connections for LISTEN are made as the pool makes its own, with
// its BeforeConnect, unless Options.Listen is set.
func NewPool(pool *pgxpool.Pool, options Options) (*record.Backend, error) {
	config := pool.Config() // a copy
	before := config.BeforeConnect
	if options.Listen == nil {
		options.Listen = config.ConnConfig
	} else {
		before = nil
	}
	db := stdlib.OpenDBFromPool(pool) // closing it leaves the pool open
	s, err := newStore(db, options)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.beforeListen = before
	return s.backend(db.Close), nil
}

// backend returns the backend on the store; end is called when the backend was closed.
func (s *store) backend(end func() error) *record.Backend {
	return record.New(s, record.Options{Close: func() error {
		s.hub.Close()
		return end()
	}})
}

// form describes the URLs.
var form = storeurl.Form{Backend: "postgres", Schemes: []string{"postgres", "postgresql"},
	Example: "postgres://user@host:5432/database?sslmode=verify-full"}

// connectionsMax bounds the pool of Open.
const connectionsMax = 4

// Open returns a backend on the database of a URL, and a function that closes it. The URL and the
// environment (PGHOST, PGPASSWORD, ~/.pgpass) may contain all that libpq understands. The URL
// also takes:
//
//	table=NAME        see Options.Table
//	lease-max=15s     see Options.LeaseMax
//	listen=URL        see Options.Listen
//	poll=true         see Options.Poll
//
// Several servers may be named: the next is tried while one is silent, within the time of a request.
// Open does not connect. Statements are sent unnamed, which suits poolers.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	config, options, err := parse(text)
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(shareTime))
	db.SetMaxOpenConns(connectionsMax)
	db.SetMaxIdleConns(1)
	db.SetConnMaxIdleTime(time.Minute)
	backend, err := New(db, options)
	if err != nil {
		return nil, nil, errors.Join(election.Permanent(err), db.Close())
	}
	return backend, func() error { return errors.Join(backend.Close(), db.Close()) }, nil
}

// shareTime leaves each server of several a share of the time of the request that needs a connection,
// and one to the request: the first may be silent while the next one is the primary.
func shareTime(ctx context.Context, config *pgx.ConnConfig) error {
	type server struct {
		host string
		port uint16
	}
	servers := map[server]bool{{config.Host, config.Port}: true}
	for _, next := range config.Fallbacks { // also the same one without TLS
		servers[server{next.Host, next.Port}] = true
	}
	if end, limited := ctx.Deadline(); limited && len(servers) > 1 {
		config.ConnectTimeout = min(config.ConnectTimeout, time.Until(end)/time.Duration(len(servers)+1))
	}
	return nil
}

// parse reads our own parameters from the URL, and the rest as libpq does.
func parse(text string) (*pgx.ConnConfig, Options, error) {
	var options Options
	var listen string
	u, query, err := form.Parse(text)
	if err == nil {
		err = storeurl.Parameters{
			"listen":    storeurl.Text(&listen),
			"table":     storeurl.Text(&options.Table),
			"lease-max": storeurl.Duration(&options.LeaseMax),
			"poll":      storeurl.Bool(&options.Poll),
		}.Take(query)
	}
	if err != nil {
		return nil, options, err
	}
	chosen := query.Has("default_query_exec_mode")
	u.RawQuery = query.Encode()
	config, err := parseConfig(u.String())
	if err != nil {
		return nil, options, err
	}
	if !chosen {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	options.Listen = config
	if listen != "" {
		if options.Listen, err = parseConfig(listen); err != nil {
			return nil, options, err
		}
	}
	return config, options, nil
}

func parseConfig(text string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(text)
	if err != nil { // pgx's error hides the password
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = timeoutDefault
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "conclave"
	}
	return config, nil
}

func newStore(db *sql.DB, options Options) (*store, error) {
	if options.Timeout < 0 || options.LeaseMax < 0 {
		return nil, errors.New("postgres: Timeout and LeaseMax must not be negative; leave them out for the defaults")
	}
	if options.Table == "" {
		options.Table = TableDefault
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	s := &store{db: db, options: options, watch: incarnation.NewWatch(options.LeaseMax)}
	var err error
	if s.sql, err = statementsFor(options.Table); err != nil {
		return nil, err
	}
	s.hub = watchhub.New(s.listen, pollPause)
	return s, nil
}
