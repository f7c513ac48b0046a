package mysql

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
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

// store is a record.Store on one table.
type store struct {
	db      *sql.DB
	options Options
	sql     *statements
	watch   *incarnation.Watch
}

var _ record.Incarnated = (*store)(nil)

// row is the result of a read: a record, its version, and the server's incarnation.
type row struct {
	record      record.Record
	version     string
	incarnation string
}

// on runs work on one connection, within the time limit. A connection to a server that
// accepts no writes is closed, because a new one may reach the primary.
func (s *store) on(ctx context.Context, work func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	err = work(ctx, conn)
	if errors.Is(err, errReplica) || isNumber(err, readOnlyServer, readOnlyMode, readOnlyTransaction) {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
	}
	return err
}

// Read returns the row of the election. If the table does not exist yet, there is none.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	var seen row
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		seen, err = s.look(ctx, conn, name)
		return err
	})
	if isNumber(err, noSuchTable) {
		return record.Record{}, "", nil
	}
	if err != nil {
		return record.Record{}, "", s.explain("read", err)
	}
	s.watch.See(seen.incarnation)
	return seen.record, seen.version, nil
}

// look reads a row; it returns an error for a connection on which writes would be lost
// (mysql-M5).
func (s *store) look(ctx context.Context, conn *sql.Conn, name string) (row, error) {
	var seen row
	var readOnly, autocommit, format, logs, text string
	err := conn.QueryRowContext(ctx, s.sql.read, name).Scan(&readOnly, &autocommit, &format, &logs, &seen.incarnation, &seen.version, &text)
	switch {
	case err != nil:
		return seen, err
	case isReadOnly(readOnly):
		return seen, errReplica
	case autocommit != "1":
		_, err := conn.ExecContext(ctx, "rollback") // the read has begun a transaction
		return seen, errors.Join(errAutocommit, err)
	case logs != "0" && format == "STATEMENT":
		return seen, errStatement
	}
	if err := json.Unmarshal([]byte(text), &seen.record); err != nil {
		return seen, election.Permanent(fmt.Errorf("row %q: %w; delete it, or repair it", name, err))
	}
	return seen, nil
}

// isReadOnly reports whether a value of read_only means a replica (takesWritesSQL).
func isReadOnly(value string) bool { return value != "0" && value != "OFF" }

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
	next := newVersion()
	statement, args := s.sql.insert, []any{name, next, string(text), r.Nonce, r.Incarnation}
	if version != "" {
		statement, args = s.sql.update, []any{next, string(text), name, version, r.Nonce, r.Incarnation}
	}
	put := func() (outcome incarnation.Outcome, err error) {
		err = s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
			written, err := changed(conn.ExecContext(ctx, statement, args...))
			if err != nil && !isNumber(err, duplicateEntry) {
				return err
			}
			if written {
				outcome.Version = next
				return nil
			}
			outcome, err = s.judge(ctx, conn, name, r.Nonce, version, next)
			return err
		})
		return outcome, err
	}
	outcome, err := put()
	if isNumber(err, noSuchTable) { // the table was missing, so nothing was written
		if err := s.makeTable(ctx); err != nil {
			return outcome, err
		}
		outcome, err = put()
	}
	for range deadlocksMax {
		if !isNumber(err, deadlock) {
			break
		}
		outcome, err = put() // the first one was rolled back
	}
	return outcome, s.explain("write", err)
}

// deadlocksMax is how often a write that the server has rolled back because of a deadlock
// is repeated at once. A deadlock is not a conflict: it says nothing about the row.
const deadlocksMax = 3

// changed reports whether a statement has changed a row.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// judge finds out the outcome of a write that reports no changed row. If the row has the
// expected version, the write was refused: a version never comes back, so the row has had
// it all the time.
func (s *store) judge(ctx context.Context, conn *sql.Conn, name, nonce, expected, next string) (incarnation.Outcome, error) {
	seen, err := s.look(ctx, conn, name)
	outcome := incarnation.Outcome{Incarnation: seen.incarnation}
	switch {
	case err != nil:
	case seen.version == next:
		outcome.Version = next
	default:
		outcome.Refused = seen.version == expected && nonce != "" && nonce != seen.record.Nonce
	}
	return outcome, err
}

// Incarnation returns that of the server as it was seen last.
func (s *store) Incarnation() string { return s.watch.Incarnation() }

// Adopt writes the incarnation into the row with the empty name.
func (s *store) Adopt(ctx context.Context, refusal incarnation.Outcome) error {
	return s.explain("write", s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, s.sql.adopt, newVersion(), refusal.Incarnation)
		return err
	}))
}

// makeTable creates the table; other candidates may do so at the same moment. MySQL cannot
// create and fill a table in one step, so a candidate that comes in between waits for a
// second, as after a failover.
func (s *store) makeTable(ctx context.Context) error {
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		var readOnly string
		if err := conn.QueryRowContext(ctx, "select @@global.read_only").Scan(&readOnly); err != nil {
			return err
		}
		if isReadOnly(readOnly) {
			return errReplica // a table of its own would stop the replication from its primary
		}
		for _, statement := range s.sql.ddl {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if isNumber(err, tableExists, duplicateEntry) {
		return nil // another candidate was faster
	}
	return s.explain("make the", err)
}

// Wait waits for the pause between two polls, varied a little so that candidates that were
// started together do not stay in step.
func (s *store) Wait(ctx context.Context, _, _ string, limit time.Duration) error {
	return polling.Sleep(ctx, min(polling.Jitter(s.options.Poll), limit))
}

// Names returns the names of all rows.
func (s *store) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		names, err = column.Read(ctx, conn, s.sql.names)
		return err
	})
	if isNumber(err, noSuchTable) {
		return nil, nil
	}
	return names, s.explain("read", err)
}

// newVersion returns 32 random hexadecimal digits.
func newVersion() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
