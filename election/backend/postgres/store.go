package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/column"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/watchhub"
	"github.com/conclave-project/conclave/election/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// store is a record.Store on one table.
type store struct {
	db      *sql.DB
	options Options
	sql     *statements
	watch   *incarnation.Watch
	hub     *watchhub.Hub[record.News]

	// beforeListen may change how a connection for LISTEN is made, nil for as told: the
	// credentials of a pool may be those of a moment.
	beforeListen func(context.Context, *pgx.ConnConfig) error
}

var (
	_ record.Watcher    = (*store)(nil)
	_ record.Teller     = (*store)(nil)
	_ record.Incarnated = (*store)(nil)
)

// Traits names the store.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "postgres", LeaseMin: 200 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "nobody is elected for LeaseMax (15 s) after a restart or failover; leaders go on if their " +
			"row is there. Grants that an asynchronous standby may have lost have run out by then. An old " +
			"primary that still takes writes from some clients elects a second leader. All candidates that " +
			"share the table, in any election, need the same LeaseMax",
		Renewal: "1 statement, 1 commit with sync, 1 NOTIFY",
		Waiting: "1 connection that listens and delivers the record; a select when there is something to do. " +
			"The successor writes three times in a lease",
		Notice: "watch (LISTEN); poll every 1 s if it cannot be received",
	}}
}

// Watches says that changes are told.
func (s *store) Watches() bool { return !s.options.Poll }

// within bounds a statement: a link that swallows everything must not hold a
// candidate for longer than its connection is worth.
func (s *store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.options.Timeout)
}

// on runs work on one connection, within the time limit, and on another one if the first
// turns out to be broken. A connection to a server that takes no writes is closed: a new one
// may reach the primary, where an address follows it.
func (s *store) on(ctx context.Context, work func(context.Context, *sql.Conn) error) (err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for range brokenMax + s.db.Stats().Idle {
		if err = s.once(ctx, work); !errors.Is(err, driver.ErrBadConn) {
			break // else a repeated write does the same once (postgres-P2)
		}
	}
	return err
}

// brokenMax is how often a request is sent over connections that turn out to be broken, beside those
// that wait in the pool: all of them may be.
const brokenMax = 3

func (s *store) once(ctx context.Context, work func(context.Context, *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	err = work(ctx, conn)
	if errors.Is(err, errStandby) || isState(err, readOnlyTransaction) {
		_ = conn.Raw(func(connection any) error {
			if c, ok := connection.(*stdlib.Conn); ok { // a pool of pgx would keep it
				_ = c.Conn().Close(ctx) // at once where ctx is over
			}
			return driver.ErrBadConn // which closes it
		})
	}
	return err
}

// Read returns the row of the election. A table that does not exist yet has
// none.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	var r record.Record
	var now, version, text string
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		var standby bool
		err := conn.QueryRowContext(ctx, s.sql.read, name).Scan(&standby, &now, &version, &text)
		if err == nil && standby {
			err = errStandby
		}
		return err
	})
	switch {
	case isState(err, undefinedTable):
		return r, "", nil
	case err != nil:
		return r, "", s.explain("read", err)
	}
	s.watch.See(now)
	if version == "" {
		return r, "", nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, "", election.Permanent(fmt.Errorf("row %q of table %s: %w; delete it, or repair it", name, s.sql.table, err))
	}
	return r, version, nil
}

// Write puts the record by one statement, and makes the table if there is none.
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	return s.watch.Write(ctx, s, name, r, version)
}

// Put is one compare and set.
func (s *store) Put(ctx context.Context, name string, r record.Record, version string) (incarnation.Outcome, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return incarnation.Outcome{}, err
	}
	args := []any{name, newVersion(), string(text), r.Nonce}
	statement := s.sql.insert
	if version != "" {
		statement, args = s.sql.update, append(args, version)
	}
	outcome, err := s.put(ctx, statement, args, version, r.Nonce)
	if isState(err, undefinedTable) { // nothing was written
		if err := s.makeTable(ctx); err != nil {
			return outcome, err
		}
		outcome, err = s.put(ctx, statement, args, version, r.Nonce)
	}
	for range failuresMax {
		if !isState(err, serializationFailure) { // as when the default isolation is not read committed
			break
		}
		outcome, err = s.put(ctx, statement, args, version, r.Nonce) // the one before was rolled back
	}
	return outcome, s.explain("write", err)
}

// failuresMax is how often a write that the server could not serialize is sent again
// at once. Such a failure says nothing of the row's version, so that it is no conflict.
const failuresMax = 3

func (s *store) put(ctx context.Context, statement string, args []any, expected, nonce string) (incarnation.Outcome, error) {
	var outcome incarnation.Outcome
	var written, told int
	var mayTake bool
	var durable, present, holder string
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, statement, args...).Scan(
			&written, &outcome.Incarnation, &mayTake, &present, &holder, &told, &durable)
	})
	switch {
	case err != nil:
	case written > 0:
		outcome.Version, _ = args[1].(string)
	default:
		outcome.Refused = !mayTake && present == expected && nonce != "" && nonce != holder
	}
	return outcome, err
}

// Incarnation is the server as it was seen last.
func (s *store) Incarnation() string { return s.watch.Incarnation() }

// Adopt writes the incarnation into the row with the empty name.
func (s *store) Adopt(ctx context.Context, refusal incarnation.Outcome) error {
	return s.explain("write", s.execute(ctx, s.sql.adopt, refusal.Incarnation, newVersion()))
}

func (s *store) execute(ctx context.Context, statement string, args ...any) error {
	return s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, statement, args...)
		return err
	})
}

// makeTable makes the table, as others may be doing at the same moment, and
// adopts the incarnation in the same transaction: nobody sees it without.
func (s *store) makeTable(ctx context.Context) error {
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		for _, statement := range s.sql.ddl {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return tx.Commit()
	})
	if isState(err, duplicateTable, duplicateObject, uniqueViolation) {
		return nil // somebody else was quicker
	}
	return s.explain("make the", err)
}

// Wait waits for news of the row.
func (s *store) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := s.WaitTold(ctx, name, version, limit)
	return err
}

// WaitTold waits for news, and brings them.
func (s *store) WaitTold(ctx context.Context, name, version string, limit time.Duration) (record.News, error) {
	return s.hub.Wait(ctx, name, version, limit, func(ctx context.Context) (string, error) {
		_, now, err := s.Read(ctx, name)
		return now, err
	})
}

// Names returns the names of all rows.
func (s *store) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		names, err = column.Read(ctx, conn, s.sql.names)
		return err
	})
	if isState(err, undefinedTable) {
		return nil, nil
	}
	if err != nil {
		return nil, s.explain("read", err)
	}
	return names, nil
}

// newVersion returns a random UUID.
func newVersion() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

var errStandby = errors.New("this server is a standby, which shows the past; name the primary, " +
	"or all servers with target_session_attrs=read-write")
