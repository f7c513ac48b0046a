package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/record"
	"github.com/jackc/pgx/v5/pgconn"
)

// unserializable is a server that cannot serialize the next statements, and carries
// out all later ones.
type unserializable struct{ left, statements int }

func (u *unserializable) Connect(context.Context) (driver.Conn, error) { return u, nil }
func (u *unserializable) Driver() driver.Driver                        { return nil }
func (u *unserializable) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (u *unserializable) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (u *unserializable) Close() error                                 { return nil }

func (u *unserializable) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	u.statements++
	if u.left > 0 {
		u.left--
		return nil, &pgconn.PgError{Code: serializationFailure, Message: "could not serialize access"}
	}
	return &written{}, nil
}

// written is the answer to a write that changed the row.
type written struct{ read bool }

func (w *written) Columns() []string { return make([]string, 7) }
func (w *written) Close() error      { return nil }

func (w *written) Next(row []driver.Value) error {
	if w.read {
		return io.EOF
	}
	w.read = true
	copy(row, []driver.Value{int64(1), "server", true, "", "", int64(0), "on"})
	return nil
}

// A serialization failure says nothing about the row's version: a holder that took it
// for a conflict would give up an election that it still holds.
func TestFailureToSerializeIsNoConflict(t *testing.T) {
	for failures, fails := range map[int]bool{1: false, failuresMax: false, failuresMax + 1: true} {
		server := &unserializable{left: failures}
		db := sql.OpenDB(server)
		s, err := newStore(db, Options{LeaseMax: time.Minute, Poll: true})
		if err != nil {
			t.Fatal(err)
		}
		version, err := s.Write(t.Context(), "e", record.Record{Nonce: "n", Incarnation: "server"}, "before")
		switch {
		case errors.Is(err, record.ErrConflict):
			t.Errorf("%d failures: the row is said to have changed", failures)
		case (err != nil) != fails:
			t.Errorf("%d failures: %v", failures, err)
		case !fails && version == "":
			t.Errorf("%d failures: no version", failures)
		case server.statements != min(failures, failuresMax)+1:
			t.Errorf("%d failures: %d statements", failures, server.statements)
		}
		_ = db.Close()
	}
}
