package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestMain(m *testing.M) { storetest.Opener(Open).Main(m) }

func TestURLSaysHowToConnect(t *testing.T) {
	config, options, err := parse("postgres://ann:secret@db.example:6432/app?sslmode=disable&table=app.elections&lease-max=30s&poll=true")
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "db.example" || config.Port != 6432 || config.User != "ann" || config.Database != "app" {
		t.Errorf("%s:%d %s %s", config.Host, config.Port, config.User, config.Database)
	}
	if options.Table != "app.elections" || options.LeaseMax != 30*time.Second || !options.Poll {
		t.Errorf("options %+v", options)
	}
	if config.DefaultQueryExecMode != pgx.QueryExecModeExec || config.RuntimeParams["application_name"] != "conclave" {
		t.Errorf("mode %v, parameters %v", config.DefaultQueryExecMode, config.RuntimeParams)
	}
	if config.RuntimeParams["table"] != "" || config.ConnectTimeout != timeoutDefault || options.Listen != config {
		t.Errorf("parameters %v, timeout %v", config.RuntimeParams, config.ConnectTimeout)
	}
}

func TestListenMayGoPastThePooler(t *testing.T) {
	config, options, err := parse("postgres://a@pooler:6432/x?sslmode=disable&default_query_exec_mode=simple_protocol" +
		"&listen=postgres%3A%2F%2Fa%40primary%3A5432%2Fx%3Fsslmode%3Ddisable")
	if err != nil {
		t.Fatal(err)
	}
	if options.Listen.Host != "primary" || config.Host != "pooler" {
		t.Errorf("listens at %s, writes to %s", options.Listen.Host, config.Host)
	}
	if config.DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		t.Errorf("mode %v", config.DefaultQueryExecMode)
	}
}

func TestBadURLsAreRefusedWithAGoodOneAndWithoutThePassword(t *testing.T) {
	storetest.Opener(Open).RefusesURLs(t, "write",
		"mysql://a:secret@b/c", "postgres://a:secret@b:x/c", "postgres://a:secret@b/c?sslmode=none",
		"postgres://a:secret@b/c?lease-max=10", "postgres://a:secret@b/c?lease-max=-1s", "postgres://a:secret@b/c?poll=1",
		"postgres://a:secret@b/c?table=a.b.c", "postgres://a:secret@b/c?listen=postgres%3A%2F%2Fa:secret@b:x/c", "postgres://a:secret@b/c?table=.x",
		"postgres://a:secret@ b/c")
}

func TestNamesOfTablesAreQuoted(t *testing.T) {
	for table, want := range map[string]string{
		"conclave_elections": `"conclave_elections"`,
		`app.el"ect`:         `"app"."el""ect"`,
		"x; drop table y":    `"x; drop table y"`,
	} {
		if got, err := quoteTable(table); err != nil || got != want {
			t.Errorf("%s: %s, %v", table, got, err)
		}
	}
	if name := channel(strings.Repeat("x", identifierBytesMax)); len(name) > identifierBytesMax || name == channel("other") {
		t.Errorf("channel %q", name)
	}
	text, err := DDL("app.elections")
	if err != nil || strings.Count(text, `"app"."elections"`) != 2 {
		t.Errorf("%s %v", text, err)
	}
}

func TestErrorsOfTheServerAreExplained(t *testing.T) {
	sql, err := statementsFor(TableDefault)
	if err != nil {
		t.Fatal(err)
	}
	s := &store{sql: sql}
	cases := []struct {
		state     string
		permanent bool
		says      string
	}{
		{insufficientPrivilege, true, "grant select, insert, update"},
		{undefinedColumn, true, "create table"},
		{invalidSchema, true, "table=SCHEMA.NAME"},
		{invalidCatalog, true, "database"},
		{invalidPassword, true, "PGPASSWORD"},
		{undefinedFunction, true, "PostgreSQL 13"},
		{readOnlyTransaction, false, "target_session_attrs"},
		{"57P03", false, "starting up"},
	}
	for _, c := range cases {
		err := s.explain("write", fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: c.state, Message: "the database system is starting up"}))
		if errors.Is(err, election.ErrPermanent) != c.permanent || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.state, err)
		}
	}
	if s.explain("write", nil) != nil {
		t.Error("an error out of nothing")
	}
}

func TestVersionsAreRandomUUIDs(t *testing.T) {
	a, b := newVersion(), newVersion()
	if a == b || len(a) != 36 || a[14] != '4' {
		t.Errorf("%s, %s", a, b)
	}
}

func TestClosedDatabaseEndsRun(t *testing.T) {
	storetest.EndsWithItsDatabase(t, "pgx", "postgres://me@127.0.0.1:1/db", func(db *sql.DB) (*record.Backend, error) { return New(db, Options{}) })
	pool, err := pgxpool.New(t.Context(), "postgres://me@127.0.0.1:1/db")
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewPool(pool, Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	storetest.EndsWithItsClient(t, b)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestNegativeOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{Timeout: -1}, {LeaseMax: -1}} {
		if _, err := newStore(nil, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
