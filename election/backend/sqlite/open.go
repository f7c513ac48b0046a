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
	"time"

	"modernc.org/sqlite"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "sqlite:///var/lib/app/elections.db"

// connectionsMax bounds the pool of Open.
const connectionsMax = 4

// Open returns a backend on the database of a URL, and what closes it:
//
//	sqlite:///PATH
//	table=NAME        see Options.Table
//	poll=100ms        see Options.Poll
//	timeout=5s        see Options.Timeout
//
// The file is made if it does not exist, in a directory that does, and then in WAL
// mode; one that exists keeps its journal mode. Every candidate has to be given
// the same file.
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
		return nil, nil, election.Permanent(fmt.Errorf("sqlite: URL %q: %w; write for example %s", redact.URL(text), err, URLExample))
	}
	// busy_timeout is what a request would lower it to; fullfsync makes a sync reach
	// the disk on macOS.
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyMax.Milliseconds()), "fullfsync(1)"}}.Encode()}
	if !strings.HasPrefix(source.Path, "/") {
		source.Path = "/" + source.Path // a drive of Windows
	}
	driver, err := sqlite.NewConnector(source.String())
	if err != nil {
		return nil, nil, election.Permanent(fmt.Errorf("sqlite: %w; write for example %s", err, URLExample))
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

// connector notes which file each connection has opened (sqlite-Q4).
type connector struct {
	driver.Connector
	path  string
	files *files
}

// movesMax is how often a file may be replaced while it is opened.
const movesMax = 5

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := refuse(c.path); err != nil {
		return nil, err
	}
	for range movesMax {
		before, _ := os.Stat(c.path) // none is made, and found in the next round
		conn, err := c.Connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		after, err := os.Stat(c.path)
		if err == nil && before != nil && os.SameFile(before, after) {
			if err = refuse(c.path); err == nil { // now that it is there
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

// prepare puts an empty database into WAL mode, and lets connections to one in that
// mode not sync each commit (sqlite-Q2).
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

// parse reads a URL.
func parse(text string) (string, Options, error) {
	var options Options
	u, err := url.Parse(text)
	if err != nil {
		return "", options, errors.New("it is none")
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	path = filepath.Clean(filepath.FromSlash(path))
	switch {
	case u.Scheme != "sqlite":
		return "", options, fmt.Errorf("the scheme is %q", u.Scheme)
	case u.Host != "" || u.User != nil || u.Opaque != "":
		return "", options, errors.New("it names a host, or a path that is not absolute: there are three slashes before it")
	case strings.Contains(u.Path, ":memory:"):
		return "", options, errors.New("a database in memory is seen by no other process")
	case !filepath.IsAbs(path) || strings.HasSuffix(u.Path, "/") || strings.ContainsRune(path, 0):
		return "", options, fmt.Errorf("%q is no absolute path of a file", u.Path)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", options, err
	}
	for name, values := range query {
		if len(values) != 1 || values[0] == "" {
			return "", options, fmt.Errorf("parameter %q has %d values or an empty one", name, len(values))
		}
		value := values[0]
		switch name {
		case "table":
			options.Table = value
			_, err = quoteTable(value)
		case "poll":
			options.Poll, err = duration(name, value)
		case "timeout":
			options.Timeout, err = duration(name, value)
		default:
			err = fmt.Errorf("unknown parameter %q", name)
		}
		if err != nil {
			return "", options, err
		}
	}
	return path, options, nil
}

func duration(name, value string) (time.Duration, error) {
	long, err := time.ParseDuration(value)
	if err != nil || long <= 0 {
		return 0, fmt.Errorf("%s=%q is no duration above zero, such as 100ms", name, value)
	}
	return long, nil
}
