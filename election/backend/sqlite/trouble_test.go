//go:build conformance && linux

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/electiontest"
	"modernc.org/sqlite"
)

// trouble is a disk whose commits take long, or are not confirmed after their work is done.
type trouble struct {
	slow atomic.Int64
	mute atomic.Bool
}

func (d *trouble) Slow(by time.Duration) { d.slow.Store(int64(by)) }
func (d *trouble) Mute()                 { d.mute.Store(true) }
func (d *trouble) Heal()                 { d.Slow(0); d.mute.Store(false) }

func openTroubled(t testing.TB, url string) (election.Backend, electiontest.Trouble) {
	path, options, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	own, err := sqlite.NewConnector(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := &trouble{}
	db := sql.OpenDB(troubled{own, disk})
	t.Cleanup(func() { _ = db.Close() })
	backend, err := New(db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend, disk
}

// troubled opens connections to the disk.
type troubled struct {
	driver.Connector
	disk *trouble
}

func (c troubled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &troubledConn{conn, c.disk}, nil
}

// troubledConn is late with commits, or does not confirm them.
type troubledConn struct {
	driver.Conn
	disk *trouble
}

func (c *troubledConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *troubledConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if query != "commit" {
		return result, err
	}
	if by := time.Duration(c.disk.slow.Load()); by > 0 && polling.Sleep(ctx, by) != nil {
		return nil, context.Cause(ctx)
	}
	if c.disk.mute.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return result, err
}
