package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"modernc.org/sqlite"
)

func TestMain(m *testing.M) { storetest.Opener(Open).Main(m) }

// newURL returns the URL of a database that does not exist yet.
func newURL(t testing.TB) string { return "sqlite://" + t.TempDir() + "/elections.db" }

// openStore opens the store of a URL as another process would.
func openStore(t testing.TB, url string) *store {
	t.Helper()
	s, db, err := open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return s
}

// openDB opens a pool as a program would, with parameters of the driver.
func openDB(t testing.TB, url, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite://")+"?"+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// storeOn returns a store on a program's own pool.
func storeOn(t testing.TB, db *sql.DB) *store {
	t.Helper()
	s, err := newStore(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	db := openDB(t, url, "_pragma=busy_timeout(20000)")
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(awaittest.Within(t), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func write(t testing.TB, s *store, r record.Record, version string) string {
	t.Helper()
	next, err := s.Write(awaittest.Within(t), "e", r, version)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestStore(t *testing.T) {
	for _, test := range []struct{ name, journal, parameters string }{
		{"AsOpenDoes", "", ""},
		{"RollbackJournal", "delete", ""},
		{"OfAProgram", "", "_pragma=busy_timeout(20000)&_pragma=synchronous(off)"},
		{"OfAProgramThatNeverWaits", "truncate", "_pragma=busy_timeout(0)"},
		{"OneConnection", "wal", "_txlock=exclusive"},
		{"OneCache", "wal", "cache=shared"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := newURL(t)
			if test.journal != "" {
				execute(t, url, "pragma journal_mode = "+test.journal, "create table theirs (a)")
			}
			storetest.Run(t, storetest.Suite{
				Open: func(t testing.TB) record.Store {
					if test.parameters == "" {
						return openStore(t, url)
					}
					db := openDB(t, url, test.parameters)
					if test.name == "OneConnection" {
						db.SetMaxOpenConns(1)
					}
					return storeOn(t, db)
				},
				Delete: func(t testing.TB, name string) {
					execute(t, url, "delete from conclave_elections where name = '"+name+"'")
				},
			})
		})
	}
}

func TestNamesAreComparedByTheirBytes(t *testing.T) {
	s := openStore(t, newURL(t))
	names := []string{"a", "A", "a ", "á", "ａ", "ß", "ss", "a\u0301"}
	for i, name := range names {
		if _, err := s.Write(awaittest.Within(t), name, record.Record{Heartbeat: uint64(i + 1)}, ""); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for i, name := range names {
		if r, _, err := s.Read(awaittest.Within(t), name); err != nil || r.Heartbeat != uint64(i+1) {
			t.Errorf("%q: heartbeat %d, not %d: %v", name, r.Heartbeat, i+1, err)
		}
	}
}

// TestWhatHasATokenIsSynced (sqlite-Q2), and a program's pragmas stay as they are.
func TestWhatHasATokenIsSynced(t *testing.T) {
	url := newURL(t)
	own := openStore(t, url)
	write(t, own, record.Record{}, "")
	for name, test := range map[string]struct {
		s       *store
		renewal string
	}{
		"of Open":      {own, "1"},
		"of a program": {storeOn(t, openDB(t, url, "_pragma=synchronous(off)&_pragma=busy_timeout(7777)")), "0"},
	} {
		s := test.s
		s.db.SetMaxOpenConns(1)
		pragma := func(name string) (value string) {
			t.Helper()
			if err := s.db.QueryRowContext(awaittest.Within(t), "pragma "+name).Scan(&value); err != nil {
				t.Error(err)
			}
			return value
		}
		before := pragma("synchronous") + " " + pragma("busy_timeout")
		_, version, err := s.Read(awaittest.Within(t), "e")
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			r    record.Record
			want string
		}{
			{record.Record{Nonce: name, Token: 1}, "2"},
			{record.Record{Nonce: name, Token: 1, Heartbeat: 1}, test.renewal},
			{record.Record{Nonce: name, Token: 2, Heartbeat: 1}, "2"},
			{record.Record{Token: 2}, "2"},
			{record.Record{Token: 2, Heartbeat: 2}, test.renewal},
		} {
			got := ""
			s.begun = func(_ context.Context, conn *sql.Conn) {
				var busy int64
				err := conn.QueryRowContext(awaittest.Within(t), "pragma synchronous").Scan(&got)
				if err == nil {
					err = conn.QueryRowContext(awaittest.Within(t), "pragma busy_timeout").Scan(&busy)
				}
				if err != nil || busy > busyMax.Milliseconds() {
					t.Errorf("%s: busy_timeout=%d within a write, %v", name, busy, err)
				}
			}
			version = write(t, s, step.r, version)
			if got != step.want {
				t.Errorf("%s: %+v is written with synchronous=%s, not %s", name, step.r, got, step.want)
			}
		}
		if after := pragma("synchronous") + " " + pragma("busy_timeout"); after != before {
			t.Errorf("%s: the pragmas are %s after %s", name, after, before)
		}
		s.begun = nil
		write(t, s, record.Record{}, version)
	}
}

// TestConnectionLeftWithinATransactionIsRefused (sqlite-Q1), because it would commit nothing.
func TestConnectionLeftWithinATransactionIsRefused(t *testing.T) {
	url := newURL(t)
	other := openStore(t, url)
	version := write(t, other, record.Record{Heartbeat: 1}, "")
	for _, begin := range []string{"begin", "savepoint theirs"} {
		db := openDB(t, url, "")
		db.SetMaxOpenConns(1)
		s := storeOn(t, db)
		if _, err := db.ExecContext(awaittest.Within(t), begin); err != nil {
			t.Fatal(err)
		}
		_, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 2}, version)
		_, _, readErr := s.Read(awaittest.Within(t), "e")
		for what, err := range map[string]error{"write": err, "read": readErr} {
			if !errors.Is(err, errNested) || !errors.Is(err, election.ErrPermanent) || errors.Is(err, record.ErrConflict) {
				t.Errorf("%s: %s: %v", begin, what, err)
			}
		}
		if _, now, err := other.Read(awaittest.Within(t), "e"); err != nil || now != version {
			t.Errorf("%s: version %s after %s, %v", begin, now, version, err)
		}
	}
}

// TestLockIsWaitedForAsLongAsTheContextLasts (sqlite-Q3), whatever the busy_timeout.
func TestLockIsWaitedForAsLongAsTheContextLasts(t *testing.T) {
	for _, journal := range []string{"wal", "delete"} {
		for _, parameters := range []string{"", "_pragma=busy_timeout(600000)", "_pragma=busy_timeout(0)"} {
			url := newURL(t)
			execute(t, url, "pragma journal_mode = "+journal, "create table theirs (a)")
			s := openStore(t, url)
			if parameters != "" {
				s = storeOn(t, openDB(t, url, parameters))
			}
			version := write(t, s, record.Record{Heartbeat: 1}, "")
			theirs := openDB(t, url, "_txlock=exclusive&_pragma=busy_timeout(20000)")
			tx, err := theirs.BeginTx(awaittest.Within(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(awaittest.Within(t), 150*time.Millisecond)
			_, err = s.Write(short, "e", record.Record{Heartbeat: 2}, version)
			cancel()
			if err == nil || errors.Is(err, record.ErrConflict) || errors.Is(err, election.ErrPermanent) {
				t.Errorf("%s, %s: a write of a locked database: %v", journal, parameters, err)
			}
			wrote := make(chan error, 1)
			go func() {
				_, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 3}, version)
				wrote <- err
			}()
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if err := <-wrote; err != nil {
				t.Errorf("%s, %s: a write that waited for the lock: %v", journal, parameters, err)
			}
		}
	}
}

// TestWriteThatEndsWithItsContextLeavesNoLock, neither for a connection in the pool nor
// for another process.
func TestWriteThatEndsWithItsContextLeavesNoLock(t *testing.T) {
	url := newURL(t)
	s := openStore(t, url)
	version := write(t, s, record.Record{Heartbeat: 1}, "")
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	s.begun = func(context.Context, *sql.Conn) { cancel() }
	if _, err := s.Write(ctx, "e", record.Record{Heartbeat: 2}, version); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("a write whose context has ended: %v", err)
	}
	s.begun = nil
	for range 2 * connectionsMax {
		version = write(t, s, record.Record{Heartbeat: 3}, version)
		version = write(t, openStore(t, url), record.Record{Heartbeat: 4}, version)
	}
}

// lateDriver opens connections. After the last statement that is allowed, the connection
// that ran it answers that the context has ended.
type lateDriver struct {
	driver.Connector
	allowed atomic.Int64
	cancel  func()
}

type lateConn struct {
	driver.Conn
	by *lateDriver
}

func (d *lateDriver) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	return &lateConn{conn, d}, err
}

// late is called after each statement.
func (d *lateDriver) late() error {
	if d.allowed.Add(-1) != 0 {
		return nil
	}
	d.cancel()
	return context.Canceled
}

func (c *lateConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if late := c.by.late(); late != nil {
		return nil, late
	}
	return result, err
}

func (c *lateConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	if late := c.by.late(); late != nil {
		if err == nil {
			_ = rows.Close()
		}
		return nil, late
	}
	return rows, err
}

// TestContextThatEndsWithAStatementLeavesNothing (sqlite-Q3): after whichever statement
// the context ended, the pool has no connection within a transaction or with pragmas of
// ours, and everybody can write.
func TestContextThatEndsWithAStatementLeavesNothing(t *testing.T) {
	url := newURL(t)
	execute(t, url, "pragma journal_mode = wal", "create table theirs (a)")
	own, err := sqlite.NewConnector("file:" + strings.TrimPrefix(url, "sqlite://") + "?_pragma=busy_timeout(7777)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	other := openStore(t, url)
	write(t, other, record.Record{}, "")
	// try lets the context of one request end with the request's n-th statement, and
	// reports whether it had that many.
	try := func(t *testing.T, n int64, request func(context.Context, *store, string) error) bool {
		late := &lateDriver{Connector: own}
		db := sql.OpenDB(late)
		defer db.Close()
		db.SetMaxOpenConns(1)
		s := storeOn(t, db)
		_, version, err := s.Read(awaittest.Within(t), "e")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(awaittest.Within(t))
		defer cancel()
		late.cancel = cancel
		late.allowed.Store(n)
		err = request(ctx, s, version)
		met := late.allowed.Swap(0) <= 0
		if errors.Is(err, election.ErrPermanent) || !met && err != nil {
			t.Errorf("statement %d: %v", n, err)
		}
		var busy, synchronous int64
		err = db.QueryRowContext(awaittest.Within(t), "select timeout, synchronous from pragma_busy_timeout, pragma_synchronous").Scan(&busy, &synchronous)
		if err != nil || busy != 7777 || synchronous != 0 {
			t.Errorf("statement %d leaves busy_timeout=%d and synchronous=%d, %v", n, busy, synchronous, err)
		}
		r, version, err := s.Read(awaittest.Within(t), "e")
		if err != nil {
			t.Errorf("statement %d: a read after it: %v", n, err)
			return met
		}
		short, end := context.WithTimeout(awaittest.Within(t), s.options.Timeout)
		defer end()
		if _, err := other.Write(short, "e", r, version); err != nil {
			t.Errorf("statement %d: another process writes after it: %v", n, err)
		}
		return met
	}
	for what, request := range map[string]func(context.Context, *store, string) error{
		"election": func(ctx context.Context, s *store, version string) error {
			_, err := s.Write(ctx, "e", record.Record{Nonce: rand.Text()}, version)
			return err
		},
		"renewal": func(ctx context.Context, s *store, version string) error {
			r, _, err := other.Read(awaittest.Within(t), "e")
			r.Heartbeat++
			if err == nil {
				_, err = s.Write(ctx, "e", r, version)
			}
			return err
		},
		"read": func(ctx context.Context, s *store, _ string) error {
			_, _, err := s.Read(ctx, "e")
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			n := int64(1)
			for try(t, n, request) {
				n++
			}
			if n < 5 {
				t.Errorf("it had %d statements", n)
			}
		})
	}
}

// TestFileThatIsReplacedIsNoticed (sqlite-Q4) by the processes that have the old file open.
func TestFileThatIsReplacedIsNoticed(t *testing.T) {
	for _, parameters := range []string{"", "_pragma=busy_timeout(100)"} {
		url := newURL(t)
		path := strings.TrimPrefix(url, "sqlite://")
		s := openStore(t, url)
		if parameters != "" {
			s = storeOn(t, openDB(t, url, parameters))
		}
		version := write(t, s, record.Record{Heartbeat: 1}, "")
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(path+suffix, path+".old"+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		_, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 2}, version)
		if !errors.Is(err, errMoved) || errors.Is(err, election.ErrPermanent) || errors.Is(err, record.ErrConflict) {
			t.Errorf("a write into a file that was removed: %v", err)
		}
		other := openStore(t, url)
		write(t, other, record.Record{Heartbeat: 3}, "")
		for i := 0; ; i++ {
			r, _, err := s.Read(awaittest.Within(t), "e")
			if err == nil {
				if r.Heartbeat != 3 {
					t.Errorf("heartbeat %d is read", r.Heartbeat)
				}
				break
			}
			if !errors.Is(err, errMoved) || i > connectionsMax {
				t.Fatalf("look %d: %v", i, err)
			}
		}
		if _, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 4}, version); !errors.Is(err, record.ErrConflict) {
			t.Errorf("a write over the version of the old file: %v", err)
		}
	}
}

// replace puts a copy in place of a database, as an operator does to restore it.
func replace(t testing.TB, url string) {
	t.Helper()
	path := strings.TrimPrefix(url, "sqlite://")
	execute(t, url, "vacuum into '"+path+".copy'")
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".copy", path); err != nil {
		t.Fatal(err)
	}
}

// TestConnectionFromBeforeARestoreDoesNotServe (sqlite-Q4): an application's pool opened
// it before we saw any other.
func TestConnectionFromBeforeARestoreDoesNotServe(t *testing.T) {
	for _, test := range []struct{ journal, parameters string }{
		{"wal", ""}, {"wal", "_pragma=busy_timeout(5000)"}, {"wal", "cache=shared"}, {"delete", ""},
	} {
		url := newURL(t)
		execute(t, url, "pragma journal_mode = "+test.journal, "create table theirs (a)")
		version := write(t, openStore(t, url), record.Record{Heartbeat: 1}, "")
		db := openDB(t, url, test.parameters)
		db.SetMaxOpenConns(1)
		var n int
		if err := db.QueryRowContext(awaittest.Within(t), "select count(*) from theirs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		replace(t, url)
		s, other := storeOn(t, db), openStore(t, url)
		if _, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 2}, version); !errors.Is(err, errMoved) {
			t.Errorf("%+v: a write into a file that was replaced: %v", test, err)
		}
		version = write(t, other, record.Record{Heartbeat: 3}, version)
		if r, _, err := s.Read(awaittest.Within(t), "e"); err != nil || r.Heartbeat != 3 {
			t.Errorf("%+v: heartbeat %d is read, %v", test, r.Heartbeat, err)
		}
		version = write(t, s, record.Record{Heartbeat: 4}, version)
		write(t, other, record.Record{Heartbeat: 5}, version)
	}
}

// TestLookersSeeTheFileThatHasTheName (sqlite-Q4), even through a connection that has
// another file open and never writes.
func TestLookersSeeTheFileThatHasTheName(t *testing.T) {
	for _, parameters := range []string{"", "mode=ro", "cache=shared"} {
		url := newURL(t)
		version := write(t, openStore(t, url), record.Record{Heartbeat: 1}, "")
		db := openDB(t, url, parameters)
		db.SetMaxOpenConns(1)
		var n int
		if err := db.QueryRowContext(awaittest.Within(t), "select count(*) from conclave_elections").Scan(&n); err != nil {
			t.Fatal(err)
		}
		s := storeOn(t, db)
		for i := uint64(1); i < 4; i++ {
			replace(t, url)
			r, now, err := s.Read(awaittest.Within(t), "e")
			if err != nil || r.Heartbeat != i || now != version {
				t.Fatalf("%q: heartbeat %d is read and not %d, %v", parameters, r.Heartbeat, i, err)
			}
			waited := make(chan error, 1)
			go func() { waited <- s.Wait(awaittest.Within(t), "e", now, 20*time.Second) }()
			version = write(t, openStore(t, url), record.Record{Heartbeat: i + 1}, version)
			if err := <-waited; err != nil {
				t.Errorf("%q: %v", parameters, err)
			}
			if names, err := s.Names(awaittest.Within(t)); err != nil || len(names) != 1 {
				t.Errorf("%q: %q, %v", parameters, names, err)
			}
		}
	}
}

// TestManyConnectionsMakeNoneForgotten (sqlite-Q4): a connection that is no longer known
// is not assumed to have the file open that has the name now.
func TestManyConnectionsMakeNoneForgotten(t *testing.T) {
	url := newURL(t)
	s := openStore(t, url)
	s.db.SetMaxOpenConns(1)
	version := write(t, s, record.Record{Heartbeat: 1}, "")
	replace(t, url)
	for range knownMax {
		s.files.put(file{conn: &lateConn{}})
	}
	if _, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 2}, version); !errors.Is(err, errMoved) {
		t.Errorf("a write into a file that was replaced: %v", err)
	}
}

// TestWhatNobodyElseCouldUseIsRefused (sqlite-Q5).
func TestWhatNobodyElseCouldUseIsRefused(t *testing.T) {
	url := newURL(t)
	for source, want := range map[string]error{
		":memory:":                   errMemory,
		"":                           errMemory,
		"file::memory:?cache=shared": errMemory,
		"file:x?mode=memory":         errMemory,
		"file:x?vfs=memdb":           nil,
		"file:" + url[len("sqlite://"):] + "?_pragma=locking_mode(exclusive)": errExclusive,
	} {
		db, err := sql.Open("sqlite", source)
		if err != nil {
			t.Fatal(err)
		}
		s := storeOn(t, db)
		for range 2 {
			_, _, err = s.Read(awaittest.Within(t), "e")
			if err == nil || want != nil && (!errors.Is(err, want) || !errors.Is(err, election.ErrPermanent)) {
				t.Errorf("%q: %v", source, err)
			}
			if _, err := s.Write(awaittest.Within(t), "e", record.Record{}, ""); err == nil {
				t.Errorf("%q is written to", source)
			}
		}
		_ = db.Close()
	}
}

// TestFileWithTwoNamesIsRefused (sqlite-Q5): each name has a log of its own, which users
// of the other name do not see.
func TestFileWithTwoNamesIsRefused(t *testing.T) {
	url, second := newURL(t), newURL(t)
	path, other := strings.TrimPrefix(url, "sqlite://"), strings.TrimPrefix(second, "sqlite://")
	execute(t, url, "pragma journal_mode = wal", "create table theirs (a)")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	for _, one := range []string{url, second} {
		for what, s := range map[string]*store{"by URL": openStore(t, one), "of a program": storeOn(t, openDB(t, one, ""))} {
			if _, _, err := s.Read(awaittest.Within(t), "e"); !errors.Is(err, errLinked) || errors.Is(err, election.ErrPermanent) {
				t.Errorf("%s: a file with two names: %v", what, err)
			}
		}
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(t, url).Read(awaittest.Within(t), "e"); err != nil {
		t.Errorf("a file that has one name again: %v", err)
	}
}

// TestFileIsLookedAtWhereItIs (sqlite-Q5), not at a symbolic link to it.
func TestFileIsLookedAtWhereItIs(t *testing.T) {
	there, here := t.TempDir(), filepath.Join(t.TempDir(), "elections.db")
	file := filepath.Join(there, "file.db")
	if err := os.Symlink(file, here); err != nil {
		t.Fatal(err)
	}
	if got := located(here); got != file {
		t.Errorf("a file that is not there yet is looked at in %s", got)
	}
	write(t, openStore(t, "sqlite://"+here), record.Record{}, "")
	if got := located(here); got != file {
		t.Errorf("it is looked at in %s", got)
	}
	if got, want := located(filepath.Join(there, "none")), filepath.Join(there, "none"); got != want {
		t.Errorf("a file without a link is looked at in %s", got)
	}
}

func TestErrorsAreExplained(t *testing.T) {
	good, dir := newURL(t), t.TempDir()
	write(t, openStore(t, good), record.Record{}, "")
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(strings.Repeat("no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := newURL(t)
	execute(t, theirs, "create table conclave_elections (name text, owner text)", "insert into conclave_elections values ('e', 'x')")
	broken := newURL(t)
	write(t, openStore(t, broken), record.Record{}, "")
	execute(t, broken, "update conclave_elections set record = 'no JSON'")
	for what, test := range map[string]struct {
		s    *store
		says string
	}{
		"no directory":    {openStore(t, "sqlite://"+dir+"/a/b.db"), "directory"},
		"a directory":     {openStore(t, "sqlite://"+dir), "directory"},
		"not a database":  {openStore(t, "sqlite://"+dir+"/text"), "another file"},
		"another table":   {openStore(t, theirs), "table=NAME"},
		"a broken record": {openStore(t, broken), "repair"},
		"read-only":       {storeOn(t, openDB(t, good, "mode=ro")), "has to write"},
	} {
		_, version, err := test.s.Read(awaittest.Within(t), "e")
		if err == nil {
			_, err = test.s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 1}, version)
		}
		if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestURLSaysWhereTheDatabaseIs(t *testing.T) {
	path, options, err := parse("sqlite:///a%20b/c%3Fd.db?table=who&poll=2s&timeout=3s")
	if err != nil || path != "/a b/c?d.db" || options != (Options{Table: "who", Poll: 2 * time.Second, Timeout: 3 * time.Second}) {
		t.Errorf("%q %+v %v", path, options, err)
	}
	if _, _, err := parse(URLExample); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	s := openStore(t, "sqlite://"+dir+"/c%3Fd%25e%23%20.db?table=who%22+leads")
	if _, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 1}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c?d%e# .db")); err != nil {
		t.Error(err)
	}
	if r, _, err := s.Read(awaittest.Within(t), "e"); err != nil || r.Heartbeat != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "sqlite", URLExample)
}

func TestBadURLsAreRefusedWithAGoodOne(t *testing.T) {
	for _, url := range []string{
		"", "elections.db", "mysql:///a.db", "sqlite://a.db", "sqlite://dir/a.db", "sqlite:a.db", "sqlite://", "sqlite:///", "sqlite:///a/",
		"sqlite:///:memory:", "sqlite://:memory:", "sqlite://u@/a.db", "sqlite:///a.db?table=sqlite_x", "sqlite:///a.db?table=a%3Fb", "sqlite:///a.db?poll=0s",
		"sqlite:///a.db?poll=2", "sqlite:///a.db?poll=", "sqlite:///a.db?timeout=-1s", "sqlite:///a.db?mode=memory", "sqlite:///a.db?vfs=memdb",
		"sqlite:///a.db?poll=1s&poll=2s", "sqlite:///a%00.db", "%zz", "sqlite:///a.db?%zz",
	} {
		_, _, err := Open(t.Context(), url)
		if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), URLExample) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, options := range []Options{{Timeout: -1}, {Poll: -1}, {Table: "sqlite_master"}, {Table: strings.Repeat("x", identifierMax+1)}} {
		if _, err := New(nil, options); err == nil {
			t.Errorf("%+v: no error", options)
		}
	}
}

// TestManyMakeTheDatabaseAtOnce: soon all of them can write.
func TestManyMakeTheDatabaseAtOnce(t *testing.T) {
	for range 3 {
		url := newURL(t)
		var wrote atomic.Int64
		errs := make(chan error)
		for range 8 {
			s := openStore(t, url)
			go func() {
				_, err := s.Write(awaittest.Within(t), "e", record.Record{}, "")
				if err == nil {
					wrote.Add(1)
				}
				errs <- err
			}()
		}
		for range 8 {
			if err := <-errs; err != nil && !errors.Is(err, record.ErrConflict) {
				t.Error(err)
			}
		}
		if wrote.Load() != 1 {
			t.Errorf("%d have made the row", wrote.Load())
		}
	}
}

func TestClosedDatabaseEndsRun(t *testing.T) {
	storetest.EndsWithItsDatabase(t, "sqlite", filepath.Join(t.TempDir(), "db"), func(db *sql.DB) (*record.Backend, error) { return New(db, Options{}) })
}
