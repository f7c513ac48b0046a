package column_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/column"
)

// table is a driver, its connection, its statement and its rows: texts, and the error with which
// reading them ends.
type table struct {
	texts []string
	end   error
}

func (t *table) Open(string) (driver.Conn, error)                 { return t, nil }
func (t *table) Prepare(string) (driver.Stmt, error)              { return t, nil }
func (t *table) Begin() (driver.Tx, error)                        { return nil, errors.ErrUnsupported }
func (t *table) Close() error                                     { return nil }
func (t *table) NumInput() int                                    { return 0 }
func (t *table) Exec([]driver.Value) (driver.Result, error)       { return nil, errors.ErrUnsupported }
func (t *table) Query([]driver.Value) (rows driver.Rows, _ error) { return t, nil }
func (t *table) Columns() []string                                { return []string{"name"} }

func (t *table) Next(row []driver.Value) error {
	if len(t.texts) == 0 {
		return t.end
	}
	row[0], t.texts = t.texts[0], t.texts[1:]
	return nil
}

func read(t *testing.T, name string, of *table) ([]string, error) {
	sql.Register(name, of)
	db, err := sql.Open(name, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return column.Read(t.Context(), conn, "select name")
}

func TestColumnIsReadInItsOrder(t *testing.T) {
	got, err := read(t, "whole", &table{texts: []string{"b", "a"}, end: io.EOF})
	if err != nil || !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPartOfAColumnIsNoAnswer(t *testing.T) {
	broken := errors.New("the connection has ended")
	got, err := read(t, "broken", &table{texts: []string{"b", "a"}, end: broken})
	if !errors.Is(err, broken) || got != nil {
		t.Errorf("%q, %v", got, err)
	}
}
