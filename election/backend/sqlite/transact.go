package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

const (
	// busyMax is how long SQLite itself may wait for a lock. Not every driver ends that
	// wait with the context, so this package waits for the rest of the time.
	busyMax = 50 * time.Millisecond
	// pauseMax is the longest pause between two attempts to get a lock.
	pauseMax = 20 * time.Millisecond
	// cleanUpWithin bounds what is done after a context has ended.
	cleanUpWithin = time.Second
	// full is pragma synchronous=full.
	full = 2
)

// patiently repeats work while others lock the database, until the context ends
// (sqlite-Q3). Work that has met a lock has not changed anything.
func patiently(ctx context.Context, conn *sql.Conn, work func() error) error {
	var own int64
	if err := conn.QueryRowContext(ctx, "pragma busy_timeout").Scan(&own); err != nil {
		return err
	}
	if longest := busyMax.Milliseconds(); own > longest {
		if err := set(ctx, conn, "busy_timeout", longest); err != nil {
			return err
		}
	}
	err := work()
	for wait := time.Millisecond; isBusy(err) && ctx.Err() == nil; wait = min(2*wait, pauseMax) {
		if polling.Sleep(ctx, wait/2+mathrand.N(wait)) != nil {
			break
		}
		err = work()
	}
	if own > busyMax.Milliseconds() {
		return errors.Join(err, putBack(ctx, conn, "busy_timeout", own))
	}
	return err
}

// set sets a pragma of the connection. Some pragmas return a row.
func set(ctx context.Context, conn *sql.Conn, pragma string, value int64) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("pragma %s = %d", pragma, value))
	return err
}

// putBack restores the owner's value of a pragma. If that fails, the connection is closed.
func putBack(ctx context.Context, conn *sql.Conn, pragma string, value int64) error {
	within, cancel := afterEnd(ctx)
	defer cancel()
	if err := set(within, conn, pragma, value); err != nil {
		discard(conn)
	}
	return nil
}

// afterEnd returns a context for what must also be done after ctx has ended.
func afterEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanUpWithin)
}

// discard closes a connection, which rolls back its transaction if there is one.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// transact runs work in a transaction of its own.
func transact(ctx context.Context, conn *sql.Conn, begin string, work func() error) error {
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		switch {
		case isNested(err):
			return errNested
		case !isBusy(err):
			rollback(ctx, conn) // it may have begun although its context has ended
			discard(conn)
		}
		return err
	}
	err := work()
	if err == nil {
		if _, err = conn.ExecContext(ctx, "commit"); err == nil {
			return nil
		}
	}
	if failed := rollback(ctx, conn); failed != nil || !isOrdinary(err) {
		discard(conn)
	}
	return err
}

// rollback ends a transaction, even after ctx has ended.
func rollback(ctx context.Context, conn *sql.Conn) error {
	within, cancel := afterEnd(ctx)
	defer cancel()
	_, err := conn.ExecContext(within, "rollback")
	return err
}

// isOrdinary reports whether the connection is still usable after a transaction that ended
// with this error.
func isOrdinary(err error) bool { return errors.Is(err, record.ErrConflict) || isBusy(err) }

// synced runs work on a connection that syncs its commits.
func synced(ctx context.Context, conn *sql.Conn, work func() error) error {
	var own int64
	if err := conn.QueryRowContext(ctx, "pragma synchronous").Scan(&own); err != nil {
		return err
	}
	if own >= full {
		return work()
	}
	if err := set(ctx, conn, "synchronous", full); err != nil {
		return err
	}
	return errors.Join(work(), putBack(ctx, conn, "synchronous", own))
}

var errNested = election.Permanent(errors.New("a connection of the pool was left within a transaction, so that nothing would be " +
	"committed; end every transaction before its connection goes back to the pool"))
