package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// EndsWithItsClient checks that no candidate campaigns or waits on a backend whose client
// was closed by its owner, because no attempt could succeed.
func EndsWithItsClient(t *testing.T, b election.Backend) {
	t.Helper()
	e, err := election.New(b, "closed", election.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := awaittest.Within(t)
	err = e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
	_, waited := e.WaitLeader(ctx)
	for _, err := range []error{err, waited} {
		if !errors.Is(err, election.ErrPermanent) || !errors.Is(err, election.ErrClosed) {
			t.Errorf("it ends with %v", err)
		}
	}
}

// EndsWithItsDatabase is EndsWithItsClient for a database, which it opens and closes.
func EndsWithItsDatabase(t *testing.T, driver, source string, open func(*sql.DB) (*record.Backend, error)) {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(db)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	EndsWithItsClient(t, b)
}
