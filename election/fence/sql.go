package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/conclave-project/conclave/election"
)

// Dialect is the SQL dialect of a database.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota // also CockroachDB
	MySQL                   // also MariaDB; tables of a transactional engine
	SQLite
)

// TableDefault is the name of the table of guard rows.
const TableDefault = "conclave_fence"

// SQL keeps the highest token of each resource in a guard row of the database that holds the
// resource. The row is changed in the transaction that changes the resource, so both happen or
// neither (fence-F2), at any isolation level: the row is locked until the end of the transaction.
// A token must be below 2^63, as those of all backends are.
//
// The other way needs no table. If the resource is a row, give it a column:
//
//	update jobs set state = $1, token = $2 where id = $3 and token <= $2
//
// and pass the result to Changed.
type SQL struct {
	dialect                Dialect
	table                  string
	update, insert, lookup string
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// NewSQL returns a fence on a table of guard rows, "" meaning TableDefault. Schema returns the
// statement that makes the table. With MySQL the name of a resource has at most 1,024 bytes.
func NewSQL(dialect Dialect, table string) (*SQL, error) {
	if table == "" {
		table = TableDefault
	}
	if !identifier.MatchString(table) {
		return nil, fmt.Errorf("fence: table %q: want a name such as %q or \"schema.name\"", table, TableDefault)
	}
	s := &SQL{dialect: dialect, table: table}
	// The counter makes each update change the row: MySQL counts only changed rows, and a
	// leader's second write does not change the token.
	s.update = "update " + table + " set token = ?, writes = writes + 1 where resource = ? and token <= ?"
	s.lookup = "select token from " + table + " where resource = ?"
	switch dialect {
	case Postgres:
		s.update, s.lookup = numbered(s.update), numbered(s.lookup)
		s.insert = "insert into " + table + " (resource, token, writes) values ($1, 0, 0) on conflict do nothing"
	case SQLite:
		s.insert = "insert into " + table + " (resource, token, writes) values (?, 0, 0) on conflict do nothing"
	case MySQL:
		// Not "insert ignore": it truncates a name that is too long.
		s.insert = "insert into " + table + " (resource, token, writes) values (?, 0, 0) on duplicate key update writes = writes"
	default:
		return nil, fmt.Errorf("fence: dialect %d: want Postgres, MySQL or SQLite", dialect)
	}
	return s, nil
}

// numbered replaces the placeholders by PostgreSQL's numbered ones.
func numbered(query string) string {
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// Schema returns the statement that makes the table, if it does not exist.
func (s *SQL) Schema() string {
	name := "text"
	if s.dialect == MySQL {
		// Not a text type: MySQL's older collations ignore spaces at the end.
		name = fmt.Sprintf("varbinary(%d)", mysqlBytesMax)
	}
	return "create table if not exists " + s.table +
		" (resource " + name + " primary key, token bigint not null, writes bigint not null)"
}

// mysqlBytesMax is the longest name of a resource with MySQL, where the length of a key is
// limited (3,072 bytes in InnoDB).
const mysqlBytesMax = 1024

// Check accepts the token for the resource within tx, or returns a *StaleError; then roll tx
// back. Call it first: what the transaction reads after Check cannot be changed by another leader
// before the transaction ends.
//
// At the isolation levels repeatable read and serializable a database may
// return an error of its own when two leaders meet; nothing is written then,
// and the transaction may be tried again.
func (s *SQL) Check(ctx context.Context, tx *sql.Tx, resource string, token election.Token) error {
	if err := Check(resource, 0, token); err != nil {
		return err
	}
	if token > math.MaxInt64 {
		return fmt.Errorf("fence %q: token %d does not fit into a column of 64 bits", resource, token)
	}
	if s.dialect == MySQL && len(resource) > mysqlBytesMax {
		return fmt.Errorf("fence: resource %.40q...: its name has %d bytes, at most %d are allowed with MySQL; use a hash of it",
			resource, len(resource), mysqlBytesMax)
	}
	accepted, err := s.raise(ctx, tx, resource, token)
	if err != nil || accepted {
		return err
	}
	// The token was refused, or the row does not exist yet.
	if _, err := tx.ExecContext(ctx, s.insert, resource); err != nil {
		return fmt.Errorf("fence %q: make the guard row: %w", resource, err)
	}
	accepted, err = s.raise(ctx, tx, resource, token)
	if err != nil || accepted {
		return err
	}
	stale := &StaleError{Resource: resource, Token: token}
	var seen int64
	// This is only for the message: an old snapshot may show an older token or none.
	if tx.QueryRowContext(ctx, s.lookup, resource).Scan(&seen) == nil && election.Token(seen) > token {
		stale.Seen = election.Token(seen)
	}
	return stale
}

// raise updates the guard row, which locks it, and reports whether a row was changed.
func (s *SQL) raise(ctx context.Context, tx *sql.Tx, resource string, token election.Token) (bool, error) {
	result, err := tx.ExecContext(ctx, s.update, int64(token), resource, int64(token))
	if err == nil {
		var rows int64
		rows, err = result.RowsAffected()
		if err == nil {
			return rows > 0, nil
		}
	}
	return false, fmt.Errorf("fence %q: update the guard row in %s: %w", resource, s.table, err)
}

// errNoRow is joined to ErrStale when no row was changed, because the row may not exist.
var errNoRow = errors.New("no row was changed")

// Changed returns nil if a statement with "and token <= ?" has changed a row, the statement's
// error if it has one, and otherwise an error that matches ErrStale: the row has a newer token,
// or does not exist. With MySQL the statement must change something in any case (writes = writes
// + 1), or the connection must be opened with clientFoundRows=true, because MySQL does not count
// rows that already had the new values.
func Changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if rows == 0 {
		return fmt.Errorf("fence: %w: %w, or there is no such row", errNoRow, ErrStale)
	}
	return nil
}
