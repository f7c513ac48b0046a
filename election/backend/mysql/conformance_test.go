//go:build conformance && linux

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/go-sql-driver/mysql"
)

func open(t testing.TB, url string) election.Backend { return storetest.Opener(Open).Open(t, url) }

var databases atomic.Int64

// newDatabase makes an empty database and returns its URL.
func newDatabase(t testing.TB, server *stores.Server) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	schema := "mysql://root@" + server.Addr + "/information_schema"
	// Starts of the server are told apart by their second.
	awaittest.Until(t, "the server runs for two seconds", func() bool {
		return lookUp(t, schema, "select variable_value >= 2 from global_status where variable_name = 'Uptime'") == "1"
	})
	execute(t, schema, "create database "+name)
	return "mysql://root@" + server.Addr + "/" + name
}

// connect returns a pool separate from the backend's, with changes to its configuration.
func connect(t testing.TB, text string, change func(*mysql.Config)) *sql.DB {
	t.Helper()
	config, _, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// execute runs statements one by one, without the backend.
func execute(t testing.TB, text string, statements ...string) {
	t.Helper()
	db := connect(t, text, func(*mysql.Config) {})
	for _, statement := range statements {
		if _, err := db.ExecContext(awaittest.Within(t), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	_ = db.Close()
}

// lookUp returns the single value that a query gives.
func lookUp(t testing.TB, text, query string) string {
	t.Helper()
	db := connect(t, text, func(*mysql.Config) {})
	defer db.Close()
	var value string
	if err := db.QueryRowContext(awaittest.Within(t), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func storeOn(t testing.TB, db *sql.DB, options Options) *store {
	t.Helper()
	s, err := newStore(db, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openStore(t testing.TB, text string) *store {
	t.Helper()
	_, options, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return storeOn(t, connect(t, text, func(*mysql.Config) {}), options)
}

func TestMariaDBPassesTheSuite(t *testing.T) {
	shared := stores.Start(t, "mariadb")
	serverOf := map[string]*stores.Server{} // by URL; tests run one after the other
	plain := func(url string) string {
		before, _, _ := strings.Cut(url, "?")
		return before
	}
	electiontest.Run(t, electiontest.Suite{
		Open:  open,
		Store: "MariaDB " + shared.Version,
		Lease: 2 * time.Second, // commits wait for a disk to which others write
		URL: func(t testing.TB) string {
			server, leaseMax := shared, "2m" // for claims that are never renewed
			if strings.Contains(t.Name(), "Restart") {
				server, leaseMax = stores.Start(t, "mariadb"), "5s" // with little to recover
			}
			url := newDatabase(t, server) + "?lease-max=" + leaseMax
			serverOf[url] = server
			return url
		},
		Proxy: func(t testing.TB, url string) (string, electiontest.Link) {
			return serverOf[url].Proxy(t, url)
		},
		Delete: func(t testing.TB, url, name string) {
			execute(t, plain(url), "delete from conclave_elections where name = '"+name+"'")
		},
		Left: func(t testing.TB, url string) int {
			count, err := strconv.Atoi(lookUp(t, plain(url), "select count(*) from conclave_elections where name <> '' "+
				"and (json_exists(record, '$.holder') or json_exists(record, '$.next') or json_exists(record, '$.request'))"))
			if err != nil {
				t.Fatal(err)
			}
			return count
		},
		Restart: func(t testing.TB, url string) {
			if err := serverOf[url].Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestMariaDBStore(t *testing.T) {
	server := stores.Start(t, "mariadb")
	for _, test := range []struct {
		name, table string
		change      func(*mysql.Config)
	}{
		{"AsOpenDoes", "", func(*mysql.Config) {}},
		{"PreparedStatements", "", func(c *mysql.Config) { c.InterpolateParams = false }},
		{"CountingFoundRows", "", func(c *mysql.Config) { c.ClientFoundRows = true }},
		{"Serializable", "", func(c *mysql.Config) { c.Params = map[string]string{"tx_isolation": "'SERIALIZABLE'"} }},
		{"ReadCommitted", "", func(c *mysql.Config) { c.Params = map[string]string{"tx_isolation": "'READ-COMMITTED'"} }},
		{"StrictAsANSI", "", func(c *mysql.Config) {
			c.Params = map[string]string{"sql_mode": "'ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES'"}
		}},
		{"OtherTable", "Who `leads`", func(*mysql.Config) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := newDatabase(t, server)
			quoted, err := quoteTable(storeOn(t, nil, Options{Table: test.table}).options.Table)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Run(t, storetest.Suite{
				Open: func(t testing.TB) record.Store {
					return storeOn(t, connect(t, text, test.change), Options{Table: test.table})
				},
				Delete: func(t testing.TB, name string) {
					execute(t, text, "delete from "+quoted+" where name = '"+name+"'")
				},
			})
		})
	}
}

// TestNamesAreComparedByTheirBytes: a collation would not distinguish these.
func TestNamesAreComparedByTheirBytes(t *testing.T) {
	s := openStore(t, newDatabase(t, stores.Start(t, "mariadb")))
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

// TestRestartInTheMiddleOfALeadership: the leader goes on, and no other candidate
// is elected meanwhile.
func TestRestartInTheMiddleOfALeadership(t *testing.T) {
	server := stores.Start(t, "mariadb")
	url := newDatabase(t, server) + "?lease-max=10s"
	storetest.RestartWhileLeading(t, open(t, url), open(t, url), 10*time.Second, func(ctx context.Context) error {
		server.Crash()
		return server.Revive(ctx)
	})
}

// TestNobodyIsElectedByAStoreThatHasForgotten (mysql-M4): the row is taken back to
// its state before the grant, as after a failover to a replica that lagged behind,
// and the server starts again.
func TestNobodyIsElectedByAStoreThatHasForgotten(t *testing.T) {
	server := stores.Start(t, "mariadb")
	const leaseMax = 5 * time.Second
	plain := newDatabase(t, server)
	url := plain + "?lease-max=5s"
	storetest.Forget(t, open(t, url), open(t, url), leaseMax, func() {
		execute(t, plain, "create table copy as select * from conclave_elections where name = 'e'")
	}, func() {
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		execute(t, plain, "delete from conclave_elections where name = 'e'", "insert into conclave_elections select * from copy")
	})
}

// TestIncarnationIsThatOfTheStart: it stays the same when the clock of a session
// is set, and changes with a restart.
func TestIncarnationIsThatOfTheStart(t *testing.T) {
	server := stores.Start(t, "mariadb")
	text := newDatabase(t, server)
	db := connect(t, text, func(c *mysql.Config) { c.Params = map[string]string{"timestamp": "86400"} })
	db.SetMaxOpenConns(1)
	first := lookUp(t, text, "select "+incarnationSQL)
	awaittest.Never(t, 2*time.Second, "another incarnation within two seconds of its clock", func() bool {
		var again string
		if err := db.QueryRowContext(awaittest.Within(t), "select "+incarnationSQL).Scan(&again); err != nil {
			t.Fatal(err)
		}
		return again != first
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := lookUp(t, text, "select "+incarnationSQL); again == first {
		t.Errorf("incarnation %s after a restart", again)
	}
}

// TestManyMakeTheTableAtOnce: soon all of them can write.
func TestManyMakeTheTableAtOnce(t *testing.T) {
	server := stores.Start(t, "mariadb")
	for round := range 3 {
		url := newDatabase(t, server) + "?lease-max=1h"
		var group sync.WaitGroup
		for i := range 16 {
			s := openStore(t, url)
			group.Go(func() {
				name, r := fmt.Sprint("e", i), record.Record{Nonce: "n"}
				for {
					_, err := s.Write(awaittest.Within(t), name, r, "")
					var notYet *record.NotYetError
					if errors.Is(err, record.ErrConflict) || errors.As(err, &notYet) && notYet.After <= time.Second {
						r.Incarnation = s.Incarnation() // the first row is about to come
						continue
					}
					if err != nil {
						t.Errorf("round %d: %v", round, err)
					}
					return
				}
			})
		}
		group.Wait()
	}
}

// TestConnectionsThatWouldLoseWritesAreRefused (mysql-M5).
func TestConnectionsThatWouldLoseWritesAreRefused(t *testing.T) {
	server := stores.Start(t, "mariadb")
	text := newDatabase(t, server)
	s := openStore(t, text)
	version, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 1}, "")
	if err != nil {
		t.Fatal(err)
	}

	off := storeOn(t, connect(t, text, func(c *mysql.Config) { c.Params = map[string]string{"autocommit": "0"} }), Options{})
	for what, err := range map[string]error{
		"insert": writeErr(t, off, "other", ""), "update": writeErr(t, off, "e", version), "read": readErr(t, off, "e")} {
		if !errors.Is(err, errAutocommit) || !errors.Is(err, election.ErrPermanent) {
			t.Errorf("%s with autocommit off: %v", what, err)
		}
	}
	if r, now, err := s.Read(awaittest.Within(t), "e"); err != nil || now != version || r.Heartbeat != 1 {
		t.Errorf("after writes with autocommit off: %+v %s %v", r, now, err)
	}
	// Nothing of them is still locked.
	if _, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 2}, version); err != nil {
		t.Fatal(err)
	}

	execute(t, text, "set global read_only = on")
	if err := readErr(t, s, "e"); !errors.Is(err, errReplica) || errors.Is(err, election.ErrPermanent) {
		t.Errorf("from a server that is read-only: %v", err)
	}
	if open := s.db.Stats().OpenConnections; open != 0 {
		t.Errorf("%d connections to a server that is read-only are kept", open)
	}
	execute(t, text, "set global read_only = off", "set global binlog_format = 'STATEMENT'")
	if err := readErr(t, openStore(t, text), "e"); !errors.Is(err, errStatement) || !errors.Is(err, election.ErrPermanent) {
		t.Errorf("with statements in the binary log: %v", err)
	}
}

func writeErr(t testing.TB, s *store, name, version string) error {
	_, err := s.Write(awaittest.Within(t), name, record.Record{Heartbeat: 9}, version)
	return err
}

func readErr(t testing.TB, s *store, name string) error {
	_, _, err := s.Read(awaittest.Within(t), name)
	return err
}

// TestStatementThatIsSentTwiceIsWrittenOnce (mysql-M2).
func TestStatementThatIsSentTwiceIsWrittenOnce(t *testing.T) {
	s := openStore(t, newDatabase(t, stores.Start(t, "mariadb")))
	first, err := s.Write(awaittest.Within(t), "e", record.Record{}, "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.db.Conn(awaittest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	insert := []any{"other", newVersion(), "{}", "", ""}
	update := []any{newVersion(), "{}", "e", first, "", ""}
	for what, twice := range map[string]func() (sql.Result, error){
		"insert": func() (sql.Result, error) { return conn.ExecContext(awaittest.Within(t), s.sql.insert, insert...) },
		"update": func() (sql.Result, error) { return conn.ExecContext(awaittest.Within(t), s.sql.update, update...) },
	} {
		if written, err := changed(twice()); err != nil || !written {
			t.Errorf("%s: %v, %v", what, written, err)
		}
		if written, err := changed(twice()); written || err != nil && !isNumber(err, duplicateEntry) {
			t.Errorf("%s again: %v, %v", what, written, err)
		}
	}
	for name, version := range map[string]any{"other": insert[1], "e": update[0]} {
		outcome, err := s.judge(awaittest.Within(t), conn, name, "", first, version.(string))
		if err != nil || outcome.Version != version {
			t.Errorf("%s: %+v, %v", name, outcome, err)
		}
	}
}

// TestReplicasGetWhatWasWritten: the binary log contains rows, and no condition
// that a replica would evaluate.
func TestReplicasGetWhatWasWritten(t *testing.T) {
	text := newDatabase(t, stores.Start(t, "mariadb"))
	s := openStore(t, text)
	version, err := s.Write(awaittest.Within(t), "e", record.Record{}, "")
	if err == nil {
		_, err = s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 1}, version)
	}
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.db.QueryContext(awaittest.Within(t), "show binlog events")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	kinds := map[string]int{}
	for rows.Next() {
		var log, kind, info string
		var at, server, end int64
		if err := rows.Scan(&log, &at, &kind, &server, &end, &info); err != nil {
			t.Fatal(err)
		}
		kinds[kind]++
		if kind == "Query" && (strings.Contains(info, "update") || strings.Contains(info, "select")) {
			t.Errorf("the binary log has the statement %s", info)
		}
	}
	if kinds["Write_rows_v1"] != 2 || kinds["Update_rows_v1"] != 1 {
		t.Errorf("the binary log has %v", kinds)
	}
}
