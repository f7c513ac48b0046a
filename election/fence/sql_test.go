package fence_test

import (
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election/fence"
)

// The module election/fence/integration tests the fence in real databases.
func TestTableNamesAreChecked(t *testing.T) {
	for _, table := range []string{"x; drop table y", "1a", "a.b.c", "a b", "\"a\"", "a."} {
		if _, err := fence.NewSQL(fence.Postgres, table); err == nil {
			t.Errorf("table %q was taken", table)
		}
	}
	if _, err := fence.NewSQL(fence.Dialect(9), ""); err == nil {
		t.Error("an unknown dialect was taken")
	}
	s, err := fence.NewSQL(fence.MySQL, "app.guards")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.Schema(), "create table if not exists app.guards (resource varbinary(1024) primary key") {
		t.Error(s.Schema())
	}
}

func TestChangedTellsWhatBecameOfAStatement(t *testing.T) {
	own := errors.New("no connection")
	if err := fence.Changed(nil, own); !errors.Is(err, own) {
		t.Errorf("an error of the statement: %v", err)
	}
	if err := fence.Changed(driver.RowsAffected(1), nil); err != nil {
		t.Errorf("one row: %v", err)
	}
	if err := fence.Changed(driver.RowsAffected(0), nil); !errors.Is(err, fence.ErrStale) {
		t.Errorf("no row: %v", err)
	}
	if err := fence.Changed(driver.ResultNoRows, nil); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a driver that cannot count: %v", err)
	}
}
