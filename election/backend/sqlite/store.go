package sqlite

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
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

// store is a record.Store on one table.
type store struct {
	db      *sql.DB
	options Options
	sql     *statements
	beside  *statements // see store.through
	files   *files
	// begun is set by tests; it is called within every transaction.
	begun func(ctx context.Context, conn *sql.Conn)
}

var _ record.Store = (*store)(nil)

// on runs work on one connection, within the time limit. It closes a connection whose state
// is unknown: if a driver only says that the context has ended, the statement may have been
// executed.
func (s *store) on(ctx context.Context, work func(context.Context, *sql.Conn, file) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	err = patiently(ctx, conn, func() error {
		one, err := s.files.admit(ctx, conn)
		if err != nil {
			return err
		}
		return work(ctx, conn, one)
	})
	if isDatabaseMoved(err) {
		err = fmt.Errorf("%w (%w)", errMoved, err)
	}
	if errors.Is(err, driver.ErrBadConn) || err != nil && ctx.Err() != nil {
		discard(conn)
	}
	return err
}

// Read returns the row of the election. If the table does not exist yet, there is none.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	var r record.Record
	var version string
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn, f file) error {
		return s.through(ctx, conn, f, func(by *statements) (err error) {
			r, version, err = s.look(ctx, conn, by, name)
			return err
		})
	})
	return r, version, s.explain("read", err)
}

// look reads a row as it is now. A transaction that was left open would show it as it was
// when the transaction began.
func (s *store) look(ctx context.Context, conn *sql.Conn, by *statements, name string) (r record.Record, version string, err error) {
	err = transact(ctx, conn, "begin", func() (err error) {
		r, version, err = s.row(ctx, conn, by, name)
		return err
	})
	return r, version, err
}

// row reads a row.
func (s *store) row(ctx context.Context, conn *sql.Conn, by *statements, name string) (record.Record, string, error) {
	var r record.Record
	var version, text string
	err := conn.QueryRowContext(ctx, by.read, name).Scan(&version, &text)
	if errors.Is(err, sql.ErrNoRows) || isNoTable(err) {
		return r, "", nil
	}
	if err != nil {
		return r, "", err
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, "", election.Permanent(fmt.Errorf("row %q: %w; delete it, or repair it", name, err))
	}
	return r, version, nil
}

// Write is one compare and set (sqlite-Q1).
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	next, written := newVersion(), false
	err = s.on(ctx, func(ctx context.Context, conn *sql.Conn, f file) error {
		if !written { // the write is done; a proof that has met a lock is repeated alone
			if err := s.swap(ctx, conn, name, r, next, string(text), version); err != nil {
				return err
			}
			written = true
		}
		return s.prove(ctx, conn, f, name, next)
	})
	if err != nil {
		return "", s.explain("write", err)
	}
	return next, nil
}

// swap writes a row if it has the given version.
func (s *store) swap(ctx context.Context, conn *sql.Conn, name string, r record.Record, next, text, version string) error {
	before, now, err := s.look(ctx, conn, s.sql, name)
	if err != nil {
		return err
	}
	if now != version {
		return record.ErrConflict
	}
	put := func() error { return s.put(ctx, conn, name, next, text, version) }
	if r.Nonce == before.Nonce && r.Token == before.Token {
		return put()
	}
	return synced(ctx, conn, put) // sqlite-Q2
}

// put makes the transaction of a write.
func (s *store) put(ctx context.Context, conn *sql.Conn, name, next, text, version string) error {
	return transact(ctx, conn, "begin immediate", func() error {
		if s.begun != nil {
			s.begun(ctx, conn)
		}
		statement, args := s.sql.update, []any{next, text, name, version}
		if version == "" {
			if _, err := conn.ExecContext(ctx, s.sql.ddl); err != nil {
				return err
			}
			statement, args = s.sql.insert, []any{name, next, text}
		}
		result, err := conn.ExecContext(ctx, statement, args...)
		if isNoTable(err) {
			return record.ErrConflict
		}
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		if err == nil && rows == 0 {
			return record.ErrConflict
		}
		return err
	})
}

// Wait polls until the row has another version. The pauses vary a little, so that
// candidates that were started together do not stay in step.
func (s *store) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		var now string
		err := s.on(within, func(ctx context.Context, conn *sql.Conn, f file) error {
			return s.through(ctx, conn, f, func(by *statements) (err error) {
				now, err = s.version(ctx, conn, by, name)
				return err
			})
		})
		if err == nil && now != version {
			return nil
		}
		// After an error return: the caller's next read reports it. The pause limits how
		// often that happens.
		if polling.Sleep(within, polling.Jitter(s.options.Poll)) != nil || err != nil {
			return context.Cause(ctx)
		}
	}
}

// Names returns the names of all rows.
func (s *store) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := s.on(ctx, func(ctx context.Context, conn *sql.Conn, f file) error {
		return s.through(ctx, conn, f, func(by *statements) (err error) {
			names, err = s.list(ctx, conn, by)
			return err
		})
	})
	return names, s.explain("read", err)
}

// list reads the names of all rows.
func (s *store) list(ctx context.Context, conn *sql.Conn, by *statements) ([]string, error) {
	names, err := column.Read(ctx, conn, by.names)
	if isNoTable(err) {
		return nil, nil
	}
	return names, err
}

// version reads the version of a row, "" if there is none.
func (s *store) version(ctx context.Context, conn *sql.Conn, by *statements, name string) (string, error) {
	var version string
	err := conn.QueryRowContext(ctx, by.version, name).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) || isNoTable(err) {
		return "", nil
	}
	return version, err
}

// newVersion returns 32 random hexadecimal digits.
func newVersion() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
