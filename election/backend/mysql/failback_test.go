//go:build conformance && linux

package mysql

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

// TestServerThatWasReadOnlyHasToBeWatched (mysql-M4): it may have been demoted and not know what
// another primary granted in between, although nobody has restarted it.
func TestServerThatWasReadOnlyHasToBeWatched(t *testing.T) {
	server := stores.Start(t, "mariadb")
	url := newDatabase(t, server)
	s := openStore(t, url)
	taken := func(name string) error {
		r, version, err := s.Read(awaittest.Within(t), "e")
		if err != nil {
			return err
		}
		r = record.Record{Nonce: name, Holder: name, Token: r.Token + 1, LeaseMs: 1000, Incarnation: s.Incarnation()}
		_, err = s.Write(awaittest.Within(t), "e", r, version)
		return err
	}
	if _, err := s.Write(awaittest.Within(t), "other", record.Record{}, ""); err != nil { // which makes the table
		t.Fatal(err)
	}
	if err := taken("before"); err != nil {
		t.Fatal(err)
	}
	first := s.Incarnation()
	execute(t, url, "set global read_only = 1")
	if err := taken("demoted"); err == nil || errors.Is(err, election.ErrPermanent) {
		t.Errorf("a server that is read-only: %v", err)
	}
	execute(t, url, "set global read_only = 0")
	var notYet *record.NotYetError
	if err := taken("promoted"); !errors.As(err, &notYet) {
		t.Errorf("a server that has been read-only elects at once: %v", err)
	}
	if s.Incarnation() == first {
		t.Errorf("its incarnation is still %s", first)
	}
	if left := s.watch.See(s.Incarnation()); left <= 0 || left > incarnation.LeaseMaxDefault {
		t.Errorf("it is watched for %v still", left)
	}
}

// TestReadOnlyServerTakesNoWritesOfAUserWhoMay (mysql-M5): a leader whose user has READ ONLY ADMIN
// or SUPER, as root has, would renew without end on a server that was demoted, next to the leader
// that the promoted server elects. Nor is a table made there, because that would stop the
// replication.
func TestReadOnlyServerTakesNoWritesOfAUserWhoMay(t *testing.T) {
	server := stores.Start(t, "mariadb")
	url, empty := newDatabase(t, server), newDatabase(t, server)
	s := openStore(t, url)
	if _, err := s.Write(awaittest.Within(t), "other", record.Record{}, ""); err != nil { // which makes the table
		t.Fatal(err)
	}
	if _, _, err := s.Read(awaittest.Within(t), "e"); err != nil {
		t.Fatal(err)
	}
	r := record.Record{Nonce: "n", Holder: "a", Token: 1, LeaseMs: 1000, Incarnation: s.Incarnation()}
	version, err := s.Write(awaittest.Within(t), "e", r, "")
	if err != nil {
		t.Fatal(err)
	}
	rows := "select group_concat(name, version order by name) from conclave_elections"
	before := lookUp(t, url, rows)
	execute(t, url, "set global read_only = 1", "create table written_by_this_user (n int)")

	renewed := r
	renewed.Heartbeat++
	for what, write := range map[string]func() error{
		"a renewal": func() error { _, err := s.Write(awaittest.Within(t), "e", renewed, version); return err },
		"a release": func() error {
			_, err := s.Write(awaittest.Within(t), "e", record.Record{Token: 1}, version)
			return err
		},
		"the first row": func() error { _, err := s.Write(awaittest.Within(t), "new", r, ""); return err },
		"the first table": func() error {
			_, err := openStore(t, empty).Write(awaittest.Within(t), "new", record.Record{}, "")
			return err
		},
	} {
		if err := write(); !errors.Is(err, errReplica) || errors.Is(err, election.ErrPermanent) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if open := s.db.Stats().OpenConnections; open != 0 {
		t.Errorf("%d connections to it are kept", open)
	}
	if err := s.Adopt(awaittest.Within(t), incarnation.Outcome{Incarnation: s.Incarnation()}); err != nil { // it changes no row
		t.Errorf("adopting: %v", err)
	}
	if after := lookUp(t, url, rows); after != before {
		t.Errorf("rows %s have become %s", before, after)
	}
	if tables := lookUp(t, empty, "select count(*) from information_schema.tables where table_schema = database()"); tables != "0" {
		t.Errorf("%s tables were made", tables)
	}
}
