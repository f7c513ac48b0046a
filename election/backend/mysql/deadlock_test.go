package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/record"
	"github.com/go-sql-driver/mysql"
)

// deadlocking is a server that rolls back the next statements, and carries out all later ones.
type deadlocking struct{ left, statements int }

func (d *deadlocking) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d *deadlocking) Driver() driver.Driver                        { return nil }
func (d *deadlocking) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (d *deadlocking) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (d *deadlocking) Close() error                                 { return nil }

func (d *deadlocking) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	d.statements++
	if d.left > 0 {
		d.left--
		return nil, &mysql.MySQLError{Number: deadlock, Message: "Deadlock found when trying to get lock"}
	}
	return driver.RowsAffected(1), nil
}

// A deadlock says nothing about the row: a holder that took it for a conflict would
// give up an election that it still holds.
func TestDeadlockIsNoConflict(t *testing.T) {
	for deadlocks, fails := range map[int]bool{1: false, deadlocksMax: false, deadlocksMax + 1: true} {
		server := &deadlocking{left: deadlocks}
		db := sql.OpenDB(server)
		s, err := newStore(db, Options{LeaseMax: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		version, err := s.Write(t.Context(), "e", record.Record{Nonce: "n"}, "before")
		switch {
		case errors.Is(err, record.ErrConflict):
			t.Errorf("%d deadlocks: the row is said to have changed", deadlocks)
		case (err != nil) != fails:
			t.Errorf("%d deadlocks: %v", deadlocks, err)
		case !fails && version == "":
			t.Errorf("%d deadlocks: no version", deadlocks)
		case server.statements != min(deadlocks, deadlocksMax)+1:
			t.Errorf("%d deadlocks: %d statements", deadlocks, server.statements)
		}
		_ = db.Close()
	}
}
