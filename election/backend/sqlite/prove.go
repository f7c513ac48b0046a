package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
)

// SQL shows only the name of the file that a connection has open, and drivers have no
// common call for more. So if a connection was not opened by this package, it also opens
// the file that now has that name. If that file contains what the connection has just
// written, the connection has the same file open (sqlite-Q4).

// besideSchema is the name of that file in the connection, while it is open.
const besideSchema = "conclave_beside"

// through runs statements on the file that has the database's name.
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

// attach opens the file at a path, with a private cache: a shared one would be what the
// connection has open already, which SQLite refuses.
func attach(ctx context.Context, conn *sql.Conn, path string) error {
	_, err := conn.ExecContext(ctx, "attach database ? as "+besideSchema, path)
	if !says(err, "already attached") {
		return err
	}
	own := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "cache=private"}
	_, err = conn.ExecContext(ctx, "attach database ? as "+besideSchema, own.String())
	return err
}

// prove returns an error unless the file that has the database's name contains the version
// that this connection has just written. If somebody has replaced that version since,
// nothing is proved.
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
