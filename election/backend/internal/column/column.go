// Package column reads a column of text, such as the names of all elections in a table.
package column

import (
	"context"
	"database/sql"
)

// Read returns what a query selects, which is one column of text, in the order of the
// database. If it fails, nothing is returned but what the driver says. A connection may be
// used by one goroutine at a time.
func Read(ctx context.Context, conn *sql.Conn, query string) ([]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		return nil, err // a part of them is not all of them
	}
	return all, nil
}
