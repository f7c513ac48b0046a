package mysql

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
	"github.com/go-sql-driver/mysql"
)

func TestMain(m *testing.M) { storetest.Opener(Open).Main(m) }

func TestURLSaysHowToConnect(t *testing.T) {
	t.Setenv(PasswordVariable, "unused")
	config, options, err := parse("mariadb://ann:s%40cret@db.example/app?table=x.elections&lease-max=30s&poll=2s&timeout=3s&tls=true")
	if err != nil {
		t.Fatal(err)
	}
	if config.Addr != "db.example:3306" || config.User != "ann" || config.Passwd != "s@cret" || config.DBName != "app" || config.TLSConfig != "true" {
		t.Errorf("%+v", config)
	}
	if want := (Options{Table: "x.elections", LeaseMax: 30 * time.Second, Poll: 2 * time.Second, Timeout: 3 * time.Second}); options != want {
		t.Errorf("options %+v", options)
	}
	config, _, err = parse("mysql://ann@/app?socket=/run/mysqld.sock")
	if err != nil || config.Net != "unix" || config.Addr != "/run/mysqld.sock" || config.Passwd != "unused" || config.TLSConfig != "preferred" {
		t.Errorf("%+v, %v", config, err)
	}
	config, _, err = parse("mysql://ann@[::1]:13306/app?tls=false")
	if err != nil || config.Addr != "[::1]:13306" || config.TLSConfig != "false" {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestBadURLsAreRefusedWithAGoodOneAndWithoutThePassword(t *testing.T) {
	storetest.Opener(Open).RefusesURLs(t, URLExample,
		"postgres://a:secret@b/c", "mysql://a:secret@b:x/c", "mysql://a:secret@ b/c", "mysql://a:secret@b/", "mysql://a:secret@b/c/d",
		"mysql://:secret@b/c", "mysql://a:secret@/c", "mysql://a:secret@b:1,c:2/d", "mysql://a:secret@b,c/d", "mysql://a:secret@b/c?socket=/s",
		"mysql://a:secret@b/c?lease-max=10", "mysql://a:secret@b/c?lease-max=-1s", "mysql://a:secret@b/c?poll=0s", "mysql://a:secret@b/c?poll=",
		"mysql://a:secret@b/c?timeout=x", "mysql://a:secret@b/c?lease-max=999ms", "mysql://a:secret@b/c?table=a.b.c", "mysql://a:secret@b/c?table=.x", "mysql://a:secret@b/c?table=a%3Fb",
		"mysql://a:secret@b/c?tls=maybe", "mysql://a:secret@b/c?tls=false&tls-ca=/x", "mysql://a:secret@b/c?tls-ca=/does/not/exist",
		"mysql://a:secret@b/c?tls-cert=/x", "mysql://a:secret@b/c?autocommit=0", "mysql://a:secret@b/c?poll=1s&poll=2s", "mysql://a:secret@b/c?%zz")
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, options := range []Options{{LeaseMax: -1}, {LeaseMax: time.Second - 1}, {Timeout: -1}, {Poll: -1}, {Table: "a.b.c"}} {
		if _, err := New(nil, options); err == nil {
			t.Errorf("%+v: no error", options)
		}
	}
}

func TestNamesOfTablesAreQuoted(t *testing.T) {
	for table, want := range map[string]string{
		"conclave_elections": "`conclave_elections`",
		"app.el`ect":         "`app`.`el``ect`",
		"x; drop table y":    "`x; drop table y`",
	} {
		if got, err := quoteTable(table); err != nil || got != want {
			t.Errorf("%s: %s, %v", table, got, err)
		}
	}
	text, err := DDL("app.elections")
	if err != nil || strings.Count(text, "`app`.`elections`") != 2 || strings.Contains(text, "@table") {
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
		number    uint16
		permanent bool
		says      string
	}{
		{tableDenied, true, "grant select, insert, update"},
		{databaseDenied, true, "create table"},
		{unknownColumn, true, "table=NAME"},
		{unknownDatabase, true, "after the slash"},
		{accessDenied, true, PasswordVariable},
		{unknownVariable, true, "MariaDB 10.5"},
		{readOnlyServer, false, "name the primary"},
		{1040, false, "what the server says"},
		{1205, false, "what the server says"}, // waiting for a lock took too long
	}
	for _, c := range cases {
		err := s.explain("write", fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: c.number, Message: "what the server says"}))
		if errors.Is(err, election.ErrPermanent) != c.permanent || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d: %v", c.number, err)
		}
	}
	if err := s.explain("read", mysql.ErrNoTLS); !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "tls=false") {
		t.Errorf("without TLS: %v", err)
	}
	if s.explain("write", nil) != nil {
		t.Error("an error out of nothing")
	}
}

func TestNoVersionComesTwice(t *testing.T) {
	if a, b := newVersion(), newVersion(); a == b || len(a) != 32 {
		t.Errorf("%s, %s", a, b)
	}
}

func TestClosedDatabaseEndsRun(t *testing.T) {
	storetest.EndsWithItsDatabase(t, "mysql", "me@tcp(127.0.0.1:1)/db", func(db *sql.DB) (*record.Backend, error) { return New(db, Options{}) })
}
