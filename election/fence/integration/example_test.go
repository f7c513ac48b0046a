package integration

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// The tokens of two leaderships: one that does not know yet that it is over, and the current one.
const zombie, leader election.Token = 33, 34

// openExample makes a database for an example and executes the statements.
func openExample(statements ...string) (*sql.DB, func(), error) {
	dir, err := os.MkdirTemp("", "fence-")
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "db"))
	for _, statement := range statements {
		if err == nil {
			_, err = db.Exec(statement)
		}
	}
	return db, func() { _ = db.Close(); _ = os.RemoveAll(dir) }, err
}

// A guard row protects everything that its transaction changes.
func ExampleSQL() {
	guard, err := fence.NewSQL(fence.SQLite, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	db, end, err := openExample(guard.Schema(), "create table invoices (id integer primary key, amount integer)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	write := func(ctx context.Context, token election.Token, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // nothing after Commit
		if err := guard.Check(ctx, tx, "invoices", token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "insert into invoices (amount) values (?)", amount); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(write(context.Background(), leader, 100))
	fmt.Println(write(context.Background(), zombie, 100))
	// Output:
	// <nil>
	// fence "invoices": token 33, seen 34: the token is stale: a later leader has been here
}

// A row with a token of its own needs no guard.
func ExampleChanged() {
	db, end, err := openExample(
		"create table jobs (id integer primary key, state text, token bigint not null)",
		"insert into jobs values (1, 'new', 0)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	set := func(token election.Token, state string) error {
		return fence.Changed(db.Exec("update jobs set state = ?, token = ? where id = 1 and token <= ?", state, token, token))
	}
	fmt.Println(set(leader, "running"))
	fmt.Println(set(zombie, "failed"))
	// Output:
	// <nil>
	// fence: no row was changed: the token is stale: a later leader has been here, or there is no such row
}
