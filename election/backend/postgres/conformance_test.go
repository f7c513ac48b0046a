//go:build conformance && linux

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
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
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

func open(t testing.TB, url string) election.Backend { return storetest.Opener(Open).Open(t, url) }

var databases atomic.Int64

// newDatabase makes an empty database and returns its URL.
func newDatabase(t testing.TB, server string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	execute(t, server, "create database "+name)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// execute runs statements one by one, without the backend.
func execute(t testing.TB, server string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(awaittest.Within(t), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(awaittest.Within(t))
	for _, statement := range statements {
		if _, err := c.Exec(awaittest.Within(t), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// lookUp returns the single value that a query gives.
func lookUp(t testing.TB, server, query string, args ...any) string {
	t.Helper()
	c, err := pgx.Connect(awaittest.Within(t), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(awaittest.Within(t))
	var text string
	if err := c.QueryRow(awaittest.Within(t), query, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

func openStore(t testing.TB, text string) *store {
	t.Helper()
	config, options, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	s, err := newStore(db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.hub.Close()
		_ = db.Close()
	})
	return s
}

func TestPostgresPassesTheSuite(t *testing.T) {
	shared := stores.Start(t, "postgres")
	serverOf := map[string]*stores.Server{} // by URL; tests run one after the other
	electiontest.Run(t, electiontest.Suite{
		Open:  open,
		Store: "PostgreSQL " + shared.Version,
		Lease: 2 * time.Second, // commits wait for a disk to which others write
		URL: func(t testing.TB) string {
			server, leaseMax := shared, "2m" // for claims that are never renewed
			if strings.Contains(t.Name(), "Restart") {
				server, leaseMax = stores.Start(t, "postgres"), "5s" // with little to recover
			}
			url := newDatabase(t, server.URL) + "&lease-max=" + leaseMax
			serverOf[url] = server
			return url
		},
		Proxy: func(t testing.TB, url string) (string, electiontest.Link) {
			return serverOf[url].Proxy(t, url)
		},
		Delete: func(t testing.TB, url, name string) {
			plain, _, _ := strings.Cut(url, "&lease-max")
			execute(t, plain, "delete from conclave_elections where name = '"+name+"'")
		},
		Left: func(t testing.TB, url string) int {
			plain, _, _ := strings.Cut(url, "&lease-max")
			count, err := strconv.Atoi(lookUp(t, plain, "select count(*)::text from conclave_elections where name <> '' "+
				"and (record ? 'holder' or record ? 'next' or record ? 'request')"))
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

func TestPostgresStore(t *testing.T) {
	server := stores.Start(t, "postgres")
	pooled, err := url.Parse(server.Note["pooled"])
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, addr, parameters string }{
		{"Listening", "", ""},
		{"Polling", "", "&poll=true"},
		{"SimpleProtocol", "", "&default_query_exec_mode=simple_protocol"},
		{"PreparedStatements", "", "&default_query_exec_mode=cache_statement"},
		{"Serializable", "", "&default_transaction_isolation=serializable"},
		{"OtherTable", "", "&table=public.Who+leads%3F"},
		{"PooledByTransaction", pooled.Host, ""},
		{"PooledSimpleProtocol", pooled.Host, "&default_query_exec_mode=simple_protocol"},
		{"PooledButListeningDirectly", pooled.Host, "&listen="},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct := newDatabase(t, server.URL)
			text := direct + test.parameters
			if test.addr != "" {
				text = strings.Replace(text, server.Addr, test.addr, 1)
			}
			if strings.HasSuffix(text, "listen=") {
				text += url.QueryEscape(direct)
			}
			table := openStore(t, text).sql.table
			quoted, err := quoteTable(table)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Run(t, storetest.Suite{
				Open: func(t testing.TB) record.Store { return openStore(t, text) },
				Delete: func(t testing.TB, name string) {
					execute(t, direct, "delete from "+quoted+" where name = '"+name+"'")
				},
			})
		})
	}
}

// TestRestartInTheMiddleOfALeadership: the leader goes on, and no other candidate is elected
// meanwhile.
func TestRestartInTheMiddleOfALeadership(t *testing.T) {
	server := stores.Start(t, "postgres")
	url := newDatabase(t, server.URL) + "&lease-max=5s"
	storetest.RestartWhileLeading(t, open(t, url), open(t, url), 4*time.Second, func(ctx context.Context) error {
		server.Crash()
		return server.Revive(ctx)
	})
}

// TestCommitsSurviveACrashWhereTheDatabaseHasItOff (postgres-P3): the control, a statement
// without our precaution, is lost.
func TestCommitsSurviveACrashWhereTheDatabaseHasItOff(t *testing.T) {
	server := stores.Start(t, "postgres")
	url := newDatabase(t, server.URL)
	execute(t, server.URL, "alter system set synchronous_commit = off", "alter system set wal_writer_delay = '10s'",
		"alter system set autovacuum = off", "select pg_reload_conf()")
	s := openStore(t, url)
	if got := lookUp(t, url, "show synchronous_commit"); got != "off" {
		t.Fatalf("synchronous_commit is %s", got)
	}
	r, version := record.Record{Token: 1}, ""
	lost := 0
	for range 3 {
		version = writeStore(t, s, r, version)
		execute(t, url, "update conclave_elections set changed = '1999-01-01' where name = 'e'") // without
		server.Crash()
		if err := server.Revive(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, now := readStore(t, s)
		if now != version || got.Token != r.Token {
			t.Fatalf("token %d, version %s after a crash; %d, %s was answered", got.Token, now, r.Token, version)
		}
		if lookUp(t, url, "select (changed < '2000-01-01')::text from conclave_elections where name = 'e'") == "false" {
			lost++
		}
		r.Token++
	}
	if lost == 0 {
		t.Error("the control group has lost nothing: the test shows nothing")
	}
}

func writeStore(t testing.TB, s *store, r record.Record, version string) string {
	t.Helper()
	var next string
	awaittest.Until(t, "a write is answered", func() bool { // the server has just been restarted
		var err error
		if next, err = s.Write(awaittest.Within(t), "e", r, version); errors.Is(err, record.ErrConflict) {
			t.Fatalf("write: %v", err)
		}
		return err == nil
	})
	return next
}

func readStore(t testing.TB, s *store) (record.Record, string) {
	t.Helper()
	var r record.Record
	var version string
	awaittest.Until(t, "a read is answered", func() bool { // the server has just been restarted
		var err error
		r, version, err = s.Read(awaittest.Within(t), "e")
		return err == nil
	})
	return r, version
}

// TestNobodyIsElectedByAStoreThatHasForgotten: the row is taken back to its state before the
// grant, as after a failover to a standby that lagged behind, and the server starts again.
func TestNobodyIsElectedByAStoreThatHasForgotten(t *testing.T) {
	server := stores.Start(t, "postgres")
	const leaseMax = 3 * time.Second
	url := newDatabase(t, server.URL) + "&lease-max=3s"
	plain := strings.TrimSuffix(url, "&lease-max=3s")
	storetest.Forget(t, open(t, url), open(t, url), leaseMax, func() {
		execute(t, plain, "create table copy as select * from conclave_elections where name = 'e'")
	}, func() {
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		execute(t, plain, "delete from conclave_elections where name = 'e'", "insert into conclave_elections select * from copy")
	})
}

func TestPromotedStandbyIsAnotherIncarnation(t *testing.T) {
	server := stores.Start(t, "postgres")
	first := lookUp(t, server.URL, "select "+incarnationSQL)
	if again := lookUp(t, server.URL, "select "+incarnationSQL); again != first || !strings.HasPrefix(first, "00000001/") {
		t.Errorf("incarnations %s, %s", first, again)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := lookUp(t, server.URL, "select "+incarnationSQL); again == first {
		t.Errorf("incarnation %s after a restart", again)
	}
}

// TestPrimaryWithoutItsSynchronousStandbyElectsNobody: cancelling the wait commits the write
// there, and a read shows it, but it was never acknowledged.
func TestPrimaryWithoutItsSynchronousStandbyElectsNobody(t *testing.T) {
	server := stores.Start(t, "postgres")
	url := newDatabase(t, server.URL)
	b := open(t, url)
	if err := b.Release(awaittest.Within(t), storetest.Acquire(t, b, "before", 4*time.Second)); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "alter system set synchronous_standby_names = 'gone'", "select pg_reload_conf()")
	awaitValue(t, url, "show synchronous_standby_names", "gone")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	elector, err := election.New(b, "e", election.Options{ID: "a", Lease: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_ = elector.Run(ctx, func(_ context.Context, lead election.Leadership) error {
		t.Errorf("leads with token %d, and no standby has confirmed anything", lead.Token())
		return nil
	})
	execute(t, url, "alter system reset synchronous_standby_names", "select pg_reload_conf()")
	storetest.Acquire(t, b, "b", 4*time.Second)
}

// TestManyMakeTheTableAtOnce: nobody sees a half-made table, and nobody waits.
func TestManyMakeTheTableAtOnce(t *testing.T) {
	server := stores.Start(t, "postgres")
	const candidates = 16
	for round := range 5 {
		url := newDatabase(t, server.URL) + "&lease-max=1h"
		var group sync.WaitGroup
		for i := range candidates {
			s := openStore(t, url)
			group.Go(func() {
				name, r := fmt.Sprint("e", i), record.Record{Nonce: "n"}
				_, err := s.Write(awaittest.Within(t), name, r, "")
				var notYet *record.NotYetError
				if errors.As(err, &notYet) && notYet.After == 0 { // the incarnation is known now
					r.Incarnation = s.Incarnation()
					_, err = s.Write(awaittest.Within(t), name, r, "")
				}
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		group.Wait()
	}
}

func TestMissingRightsAreToldWithTheirRemedy(t *testing.T) {
	server := stores.Start(t, "postgres")
	url := newDatabase(t, server.URL)
	execute(t, url, "create role app login", "revoke all on schema public from public", "grant usage on schema public to app")
	asApp := strings.Replace(url, "postgres@", "app@", 1)
	s := openStore(t, asApp)
	if _, _, err := s.Read(awaittest.Within(t), "e"); err != nil {
		t.Errorf("a read without a table: %v", err)
	}
	_, err := s.Write(awaittest.Within(t), "e", record.Record{}, "")
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "create table") {
		t.Errorf("without the right to make the table: %v", err)
	}
	ddl, err := DDL("")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, slices.DeleteFunc(strings.Split(ddl, ";\n"), func(s string) bool { return s == "" })...)
	if _, _, err = s.Read(awaittest.Within(t), "e"); !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "grant select") {
		t.Errorf("without the right to read: %v", err)
	}
	execute(t, url, "grant select, insert, update on conclave_elections to app")
	writeStore(t, s, record.Record{}, "") // with its incarnation
	_, _, err = openStore(t, strings.Replace(asApp, "/test_", "/none_", 1)).Read(awaittest.Within(t), "e")
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("without a database: %v", err)
	}
	execute(t, url, "alter database "+strings.Split(strings.Split(url, "/")[3], "?")[0]+" set default_transaction_read_only = on")
	_, err = openStore(t, asApp).Write(awaittest.Within(t), "other", record.Record{}, "")
	if !errors.Is(err, errStandby) || errors.Is(err, election.ErrPermanent) {
		t.Errorf("where nothing may be written: %v", err)
	}
}

// TestPoolsOfTheUserServe: database/sql with nothing of ours, and pgxpool.
func TestPoolsOfTheUserServe(t *testing.T) {
	server := stores.Start(t, "postgres")
	url := newDatabase(t, server.URL)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	pool, err := pgxpool.New(awaittest.Within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	a, err := New(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := NewPool(pool, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	held := storetest.Acquire(t, a, "a", 10*time.Second)
	ended := make(chan election.Grant, 1)
	go func() { ended <- storetest.Acquire(t, b, "b", 10*time.Second) }()
	for view := range b.Observe(awaittest.Within(t), "e") {
		if slices.Equal(view.WaiterIDs(), []string{"b"}) {
			break
		}
	}
	if err := a.Release(awaittest.Within(t), held); err != nil {
		t.Fatal(err)
	}
	if next := <-ended; next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// TestPoolIsListenedToAsItConnects: the credentials of a pool may come from its BeforeConnect,
// for example those of a cloud's IAM or of Vault. The connection for LISTEN used outdated ones.
func TestPoolIsListenedToAsItConnects(t *testing.T) {
	config, err := pgxpool.ParseConfig(newDatabase(t, stores.Start(t, "postgres").URL))
	if err != nil {
		t.Fatal(err)
	}
	user := config.ConnConfig.User
	config.ConnConfig.User = "expired"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { c.User = user; return nil }
	pool, err := pgxpool.NewWithConfig(awaittest.Within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b, err := NewPool(pool, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for range b.Observe(ctx, "e") {
		}
	}()
	awaittest.Until(t, "somebody listens", func() bool {
		var listen int
		err := pool.QueryRow(awaittest.Within(t), "select count(*) from pg_stat_activity where query like 'listen %'").Scan(&listen)
		return err == nil && listen > 0
	})
}

// TestClosedBackendLeavesThePoolAlone: nothing of the backend is left, and the pool still works.
func TestClosedBackendLeavesThePoolAlone(t *testing.T) {
	pool, err := pgxpool.New(awaittest.Within(t), newDatabase(t, stores.Start(t, "postgres").URL))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const backends = 100
	before := runtime.NumGoroutine()
	for range backends {
		b, err := NewPool(pool, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	awaittest.Until(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() < before+backends/2 })
	if err := pool.Ping(awaittest.Within(t)); err != nil {
		t.Errorf("the pool: %v", err)
	}
}
