package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"modernc.org/sqlite"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/record"
)

// URLExample is a URL that Open takes.
const URLExample = "sqlite:///var/lib/app/elections.db"

// connectionsMax bounds the pool of Open.
const connectionsMax = 4

// Open returns a backend on the database of a URL, and a function that closes it:
//
//	sqlite:///PATH
//	table=NAME        see Options.Table
//	poll=100ms        see Options.Poll
//	timeout=5s        see Options.Timeout
//
// If the file does not exist, it is created in WAL mode, in a directory that must exist; an
// existing file keeps its journal mode. Every candidate must use the same file.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	s, db, err := open(text)
	if err != nil {
		return nil, nil, err
	}
	backend := record.New(s, record.Options{})
	return backend, func() error { return errors.Join(backend.Close(), db.Close()) }, nil
}

// open returns the store of a URL on a pool of its own.
func open(text string) (*store, *sql.DB, error) {
	path, options, err := parse(text)
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	// busy_timeout is the value to which a request would lower it; fullfsync makes a sync
	// reach the disk on macOS.
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyMax.Milliseconds()), "fullfsync(1)"}}.Encode()}
	if !strings.HasPrefix(source.Path, "/") {
		source.Path = "/" + source.Path // begins with a drive letter (Windows)
	}
	driver, err := sqlite.NewConnector(source.String())
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	s, err := newStore(nil, options)
	if err != nil {
		return nil, nil, err
	}
	db := sql.OpenDB(&connector{Connector: driver, path: path, files: s.files})
	db.SetMaxOpenConns(connectionsMax)
	db.SetMaxIdleConns(connectionsMax)
	s.db = db
	return s, db, nil
}

// connector records which file each connection has opened (sqlite-Q4).
type connector struct {
	driver.Connector
	path  string
	files *files
}

// movesMax is how often a file may be replaced while it is being opened.
const movesMax = 5

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := refuse(c.path); err != nil {
		return nil, err
	}
	for range movesMax {
		before, _ := os.Stat(c.path) // no file: it is created now, and found in the next round
		conn, err := c.Connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		after, err := os.Stat(c.path)
		if err == nil && before != nil && os.SameFile(before, after) {
			if err = refuse(c.path); err == nil { // check again, now that it exists
				err = prepare(ctx, conn)
			}
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			c.files.put(file{conn, c.path, after})
			return conn, nil
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("open %s: it is replaced again and again", c.path)
}

// prepare puts an empty database into WAL mode. On a connection to a database in WAL mode
// it turns off the sync of each commit (sqlite-Q2).
func prepare(ctx context.Context, conn driver.Conn) error {
	query := func(text string) (string, error) {
		rows, err := conn.(driver.QueryerContext).QueryContext(ctx, text, nil)
		if err != nil {
			return "", err
		}
		value := make([]driver.Value, 1)
		if err := rows.Next(value); err != nil {
			return "", errors.Join(err, rows.Close())
		}
		return fmt.Sprint(value[0]), rows.Close()
	}
	for {
		mode, err := query("pragma journal_mode")
		if err == nil && mode == "wal" {
			_, err = conn.(driver.ExecerContext).ExecContext(ctx, "pragma synchronous = normal", nil)
			return err
		}
		var pages string
		if err == nil {
			pages, err = query("pragma page_count")
		}
		if err == nil && pages != "0" {
			return nil
		}
		if err == nil {
			_, err = query("pragma journal_mode = wal")
		}
		if err == nil {
			continue
		}
		if !isBusy(err) || polling.Sleep(ctx, pauseMax) != nil {
			return err
		}
	}
}

// form describes the URLs.
var form = storeurl.Form{Backend: "sqlite", Schemes: []string{"sqlite"}, Example: URLExample}

// parse reads a URL.
func parse(text string) (string, Options, error) {
	var options Options
	u, values, err := form.Parse(text)
	if err != nil {
		return "", options, err
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	path = filepath.Clean(filepath.FromSlash(path))
	switch {
	case u.Host != "" || u.User != nil || u.Opaque != "":
		return "", options, errors.New("it names a host, or a path that is not absolute: there are three slashes before it")
	case strings.Contains(u.Path, ":memory:"):
		return "", options, errors.New("a database in memory is seen by no other process")
	case !filepath.IsAbs(path) || strings.HasSuffix(u.Path, "/") || strings.ContainsRune(path, 0):
		return "", options, fmt.Errorf("%q is no absolute path of a file", u.Path)
	}
	err = storeurl.Parameters{
		"table": func(name string) error {
			options.Table = name
			_, err := quoteTable(name)
			return err
		},
		"poll":    storeurl.Duration(&options.Poll),
		"timeout": storeurl.Duration(&options.Timeout),
	}.Read(values)
	return path, options, err
}
