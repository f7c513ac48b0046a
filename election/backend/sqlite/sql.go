package sqlite

import (
	"errors"
	"fmt"
	"strings"
)

// Statements with their parameters; @table is replaced. The schema in it keeps SQLite from
// using a temporary table of the same name, or one of an attached database.
const (
	ddlSQL = `create table if not exists @table (
	name    text not null primary key,
	version text not null,
	record  text not null,
	changed text not null
)`
	// name, version, record.
	insertSQL = `insert into @table (name, version, record, changed)
values (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) on conflict (name) do nothing`

	// version, record; name, version expected.
	updateSQL = `update @table set version = ?, record = ?, changed = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
where name = ? and version = ?`

	// name.
	readSQL    = `select version, record from @table where name = ?`
	versionSQL = `select version from @table where name = ?`

	namesSQL = `select name from @table`
)

// statements are the statements for one table.
type statements struct {
	table                                     string
	ddl, read, version, names, insert, update string
}

func statementsFor(schema, table string) (*statements, error) {
	quoted, err := quoteTable(table)
	if err != nil {
		return nil, err
	}
	quoted = schema + "." + quoted
	fill := strings.NewReplacer("@table", quoted).Replace
	return &statements{table: table, ddl: fill(ddlSQL), read: fill(readSQL), version: fill(versionSQL),
		names: fill(namesSQL), insert: fill(insertSQL), update: fill(updateSQL)}, nil
}

const identifierMax = 200

// quoteTable quotes a name.
func quoteTable(table string) (string, error) {
	lower := strings.ToLower(table)
	if table == "" || len(table) > identifierMax || strings.ContainsAny(table, "\x00?") || strings.HasPrefix(lower, "sqlite_") {
		return "", fmt.Errorf("table %q: %w", table, errTable)
	}
	return `"` + strings.ReplaceAll(table, `"`, `""`) + `"`, nil
}

// A question mark in a name could be taken for a parameter.
var errTable = errors.New(`not a name of 1 to 200 bytes, without question marks, that does not begin with sqlite_; ` +
	`write for example "elections"`)
