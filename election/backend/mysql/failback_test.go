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

// TestServerThatWasReadOnlyHasToBeWatched (mysql-M4): it may have been demoted, and forgotten
// what the primary in between has granted, though nobody has restarted it.
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
