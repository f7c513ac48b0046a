package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// breaking makes connections that break while they wait in a pool.
type breaking struct{}

func (breaking) Driver() driver.Driver                        { return nil }
func (breaking) Connect(context.Context) (driver.Conn, error) { return &once{}, nil }
func (*once) Prepare(string) (driver.Stmt, error)             { return nil, driver.ErrSkip }
func (*once) Close() error                                    { return nil }
func (*once) Begin() (driver.Tx, error)                       { return nil, driver.ErrSkip }
func (o *once) ResetSession(context.Context) error            { o.waited = true; return nil }
func (o *once) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	if o.waited {
		return nil, driver.ErrBadConn
	}
	return driver.ResultNoRows, nil
}

type once struct{ waited bool }

// All connections that wait in a program's own pool may be broken, for example after a restart of
// the server. A request then uses a new connection.
func TestPoolOfBrokenConnectionsServes(t *testing.T) {
	const idle = 8
	db := sql.OpenDB(breaking{})
	defer db.Close()
	db.SetMaxIdleConns(idle)
	ctx := awaittest.Within(t)
	var used []*sql.Conn
	for range idle {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, conn)
	}
	for _, conn := range used {
		_ = conn.Close()
	}
	s, err := newStore(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.hub.Close()
	if err := s.execute(ctx, "select"); err != nil {
		t.Errorf("with %d broken connections: %v", idle, err)
	}
}
