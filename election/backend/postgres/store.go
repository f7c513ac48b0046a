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

	// beforeListen, if not nil, may change the configuration of a connection for LISTEN: a
	// pool's credentials may be short-lived.
	beforeListen func(context.Context, *pgx.ConnConfig) error
}

var (
	_ record.Watcher    = (*store)(nil)
	_ record.Teller     = (*store)(nil)
	_ record.Incarnated = (*store)(nil)
)

// Traits returns what the store promises and what it depends on.
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

// Watches says that Wait learns of changes.
func (s *store) Watches() bool { return !s.options.Poll }

// within bounds the time of a statement, so that a link that loses everything does not
// block a candidate for long.
func (s *store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.options.Timeout)
}

// on runs work on one connection, within the time limit, and again on another one if the
// first turns out to be broken. A connection to a server that accepts no writes is closed:
// if the address follows the primary, the next connection reaches it.
func (s *store) on(ctx context.Context, work func(context.Context, *sql.Conn) error) (err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for range brokenMax + s.db.Stats().Idle {
		if err = s.once(ctx, work); !errors.Is(err, driver.ErrBadConn) {
			break // else try again: a repeated write has the same effect (postgres-P2)
		}
	}
	return err
}

// brokenMax is how many broken connections a request may meet in addition to those that are
// idle in the pool: all of these may be broken.
const brokenMax = 3

func (s *store) once(ctx context.Context, work func(context.Context, *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	err = work(ctx, conn)
	if errors.Is(err, errStandby) || isState(err, readOnlyTransaction) {
		_ = conn.Raw(func(connection any) error {
			if c, ok := connection.(*stdlib.Conn); ok { // else a pgx pool would keep it
				_ = c.Conn().Close(ctx) // at once if ctx has ended
			}
			return driver.ErrBadConn // closes it
		})
	}
	return err
}

// Read returns the row of the election. If the table does not exist yet, there is none.
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

// Write writes the record with one statement. It creates the table if it does not exist.
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
	if isState(err, undefinedTable) { // the table was missing, so nothing was written
		if err := s.makeTable(ctx); err != nil {
			return outcome, err
		}
		outcome, err = s.put(ctx, statement, args, version, r.Nonce)
	}
	for range failuresMax {
		if !isState(err, serializationFailure) { // possible if the default isolation is not read committed
			break
		}
		outcome, err = s.put(ctx, statement, args, version, r.Nonce) // the first one was rolled back
	}
	return outcome, s.explain("write", err)
}

// failuresMax is how often a write that the server could not serialize is repeated at once.
// Such a failure is not a conflict: it says nothing about the row's version.
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

// Incarnation returns that of the server as it was seen last.
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

// makeTable creates the table; other candidates may do so at the same moment. It adopts the
// incarnation in the same transaction, so nobody sees the table without it.
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
		return nil // another candidate was faster
	}
	return s.explain("make the", err)
}

// Wait waits for news of the row.
func (s *store) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := s.WaitTold(ctx, name, version, limit)
	return err
}

// WaitTold waits for news and returns them.
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
