// Package column reads a column of text, such as the names of all elections in a table.
package column

import (
	"context"
	"database/sql"
)

// Read returns the result of a query that selects one column of text, in the order of the
// database. If it fails, it returns only the driver's error. A connection may be used by
// one goroutine at a time.
func Read(ctx context.Context, conn *sql.Conn, query string) ([]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		return nil, err // never return a partial list
	}
	return all, nil
}
