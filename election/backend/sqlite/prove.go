package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
)

// SQL does not tell which file a connection has open, but for its name, and drivers
// have no common call that does. So a connection whose opening we have not watched
// looks at a file that it opens beside, by that name, and is known to have the same
// one open when that file has what it has written (sqlite-Q4).

// besideSchema names that file in a connection, for as long as a look takes.
const besideSchema = "conclave_beside"

// through has statements look at the file that has the database's name.
func (s *store) through(ctx context.Context, conn *sql.Conn, f file, look func(*statements) error) error {
	if f.info != nil {
		return look(s.sql)
	}
	if err := attach(ctx, conn, f.path); err != nil {
		return err
	}
	defer func() {
		within, cancel := afterEnd(ctx)
		defer cancel()
		if _, err := conn.ExecContext(within, "detach database "+besideSchema); err != nil {
			discard(conn)
		}
	}()
	return look(s.beside)
}

// attach opens the file of a path. With a cache that connections share it would be what
// they have open, which SQLite refuses.
func attach(ctx context.Context, conn *sql.Conn, path string) error {
	_, err := conn.ExecContext(ctx, "attach database ? as "+besideSchema, path)
	if !says(err, "already attached") {
		return err
	}
	own := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "cache=private"}
	_, err = conn.ExecContext(ctx, "attach database ? as "+besideSchema, own.String())
	return err
}

// prove returns an error unless the file that has the database's name has a version
// that this connection has just written. A version that somebody has replaced since
// proves nothing either.
func (s *store) prove(ctx context.Context, conn *sql.Conn, f file, name, version string) error {
	if f.info != nil {
		return nil
	}
	before, err := os.Stat(f.path)
	if err != nil {
		return errMoved
	}
	var found string
	if err := s.through(ctx, conn, f, func(by *statements) (err error) {
		found, err = s.version(ctx, conn, by, name)
		return err
	}); err != nil {
		return err
	}
	after, err := os.Stat(f.path)
	if err != nil || found != version || !os.SameFile(before, after) {
		return errMoved
	}
	f.info = after
	s.files.put(f)
	return nil
}
