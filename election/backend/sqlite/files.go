package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/election"
)

// files are the connections that have been used, each with what is known about the file
// that it has open (sqlite-Q4).
type files struct {
	mu    sync.Mutex
	known map[driver.Conn]file
}

// file is the file that a connection has open.
type file struct {
	conn driver.Conn
	path string
	// info is nil while the connection may have another file open than the one that has the
	// name now: it comes from a program's own pool and may be older than that file.
	info os.FileInfo
}

// knownMax bounds the connections that are remembered, because a pool does not say which
// ones it has closed. One that was forgotten proves again which file it has open.
const knownMax = 256

func newFiles() *files { return &files{known: make(map[driver.Conn]file)} }

// isKey reports whether a connection can be distinguished from others. Those of a driver
// that wraps another one may not be.
func isKey(conn driver.Conn) bool { return conn != nil && reflect.ValueOf(conn).Comparable() }

func (f *files) get(conn driver.Conn) (file, bool) {
	if !isKey(conn) {
		return file{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.known[conn]
	return one, ok
}

func (f *files) put(one file) {
	if !isKey(one.conn) {
		return // it is checked each time
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.known {
		if len(f.known) < knownMax {
			break
		}
		delete(f.known, conn)
	}
	f.known[one.conn] = one
}

// errMoved says that a connection has another file open than the database's.
var errMoved = fmt.Errorf("its file was removed or replaced: %w", driver.ErrBadConn)

// admit returns an error for a connection that must not be used: errMoved if only this one
// must not, another error if none to this database may be (sqlite-Q5).
func (f *files) admit(ctx context.Context, conn *sql.Conn) (file, error) {
	var raw driver.Conn
	if err := conn.Raw(func(one any) error { raw, _ = one.(driver.Conn); return nil }); err != nil {
		return file{}, err
	}
	if one, known := f.get(raw); known {
		return one, one.check()
	}
	one, err := lookAt(ctx, conn)
	if err != nil {
		return file{}, err
	}
	one.conn = raw
	f.put(one)
	return one, one.check()
}

// check returns an error if the name by which the file was opened belongs to another file
// or to none.
func (o file) check() error {
	now, err := os.Stat(o.path)
	if err != nil || o.info != nil && !os.SameFile(o.info, now) {
		return errMoved
	}
	return nil
}

// lookAt asks a connection for the name of the file that it has open, and returns an error
// for a file that others could not see or lock.
func lookAt(ctx context.Context, conn *sql.Conn) (file, error) {
	var path, mode string
	if err := conn.QueryRowContext(ctx, "select file from pragma_database_list where name = 'main'").Scan(&path); err != nil {
		return file{}, err
	}
	if path == "" {
		return file{}, errMemory
	}
	if err := conn.QueryRowContext(ctx, "pragma locking_mode").Scan(&mode); err != nil {
		return file{}, err
	}
	if !strings.EqualFold(mode, "normal") {
		return file{}, errExclusive
	}
	return file{path: path}, refuse(path)
}

var (
	errMemory = election.Permanent(fmt.Errorf("the database is in memory, or a temporary one, which no other process sees; " +
		"open a file on a local disk"))
	errExclusive = election.Permanent(fmt.Errorf("the connection has locking_mode=exclusive, so that others could never lock the database; " +
		"leave the pragma out"))
)
