package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	_ "modernc.org/sqlite"
)

// begin starts a transaction with the isolation level of a test.
type begin func(ctx context.Context) (*sql.Tx, error)

// triesMax is how often a transaction is tried if a database refuses it because
// of another one.
const triesMax = 1000

// transact runs f in a transaction, again and again while busy reports that it
// was refused because of another one.
func transact(ctx context.Context, begin begin, busy func(error) bool, f func(*sql.Tx) error) error {
	for try := 0; ; try++ {
		tx, err := begin(ctx)
		if err == nil {
			if err = f(tx); err == nil {
				err = tx.Commit()
			}
			if err != nil {
				_ = tx.Rollback() // does nothing if it is over
			}
		}
		if err == nil || !busy(err) || try == triesMax {
			return err
		}
	}
}

// table is a database under test.
type table struct {
	db      *sql.DB
	dialect fence.Dialect
	level   sql.IsolationLevel
	busy    func(error) bool
	made    atomic.Int32
}

func (b *table) begin(ctx context.Context) (*sql.Tx, error) {
	return b.db.BeginTx(ctx, &sql.TxOptions{Isolation: b.level})
}

// guarded is a number in a table, behind a guard row.
func (b *table) guarded(t *testing.T) fencetest.Resource {
	f, err := fence.NewSQL(b.dialect, "")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("guarded_%d_%d", time.Now().UnixNano(), b.made.Add(1))
	for _, statement := range []string{f.Schema(), "create table " + name + " (n bigint not null)", "insert into " + name + " values (0)"} {
		if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	read := func(ctx context.Context, from interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}) (n int, err error) {
		return n, from.QueryRowContext(ctx, "select n from "+name).Scan(&n)
	}
	return fencetest.Resource{
		Claim: func(ctx context.Context, token election.Token) (value int, err error) {
			err = transact(ctx, b.begin, b.busy, func(tx *sql.Tx) error {
				if err := f.Check(ctx, tx, name, token); err != nil {
					return err
				}
				value, err = read(ctx, tx)
				return err
			})
			return value, err
		},
		Write: func(ctx context.Context, token election.Token, value int) error {
			return transact(ctx, b.begin, b.busy, func(tx *sql.Tx) error {
				if err := f.Check(ctx, tx, name, token); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, fmt.Sprintf("update %s set n = %d", name, value))
				return err
			})
		},
		Read: func(ctx context.Context) (int, error) { return read(ctx, b.db) },
	}
}

// inColumn is a number in a row that has its own token.
func (b *table) inColumn(t *testing.T) fencetest.Resource {
	name := fmt.Sprintf("column_%d_%d", time.Now().UnixNano(), b.made.Add(1))
	for _, statement := range []string{
		"create table " + name + " (n bigint not null, token bigint not null)", "insert into " + name + " values (0, 0)",
	} {
		if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	read := func(ctx context.Context) (n int, err error) {
		return n, b.db.QueryRowContext(ctx, "select n from "+name).Scan(&n)
	}
	update := func(ctx context.Context, token election.Token, set string) error {
		return transact(ctx, b.begin, b.busy, func(tx *sql.Tx) error {
			return fence.Changed(tx.ExecContext(ctx,
				fmt.Sprintf("update %s set %s, token = %d where token <= %d and %d > 0", name, set, token, token, token)))
		})
	}
	return fencetest.Resource{
		Claim: func(ctx context.Context, token election.Token) (int, error) {
			if err := update(ctx, token, "n = n"); err != nil {
				return 0, err
			}
			return read(ctx)
		},
		Write: func(ctx context.Context, token election.Token, value int) error {
			return update(ctx, token, fmt.Sprintf("n = %d", value))
		},
		Read: read,
	}
}

func openSQLite(t testing.TB) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(20000)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSQLiteLosesNoUpdate(t *testing.T) {
	b := &table{db: openSQLite(t), dialect: fence.SQLite, busy: func(error) bool { return false }}
	t.Run("GuardRow", func(t *testing.T) { fencetest.Run(t, b.guarded) })
	t.Run("Column", func(t *testing.T) { fencetest.Run(t, b.inColumn) })
}

// A transaction that was refused leaves nothing behind; neither does a
// transaction that was not committed.
func TestGuardGoesWithItsTransaction(t *testing.T) {
	db, ctx := openSQLite(t), awaittest.Within(t)
	f, err := fence.NewSQL(fence.SQLite, "guards")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, f.Schema()); err != nil {
		t.Fatal(err)
	}
	check := func(token election.Token, commit bool) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		err = f.Check(ctx, tx, "r", token)
		if err == nil && commit {
			return tx.Commit()
		}
		return err
	}
	for _, step := range []struct {
		token  election.Token
		commit bool
		stale  bool
	}{{5, true, false}, {9, false, false}, {6, true, false}, {6, true, false}, {5, true, true}, {1<<63 - 1, true, false}} {
		if err := check(step.token, step.commit); errors.Is(err, fence.ErrStale) != step.stale || !step.stale && err != nil {
			t.Errorf("token %d: %v", step.token, err)
		}
	}
	if err := check(1<<63, true); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a token that does not fit: %v", err)
	}
}
