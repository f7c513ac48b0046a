package mysql_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/mysql"
	_ "github.com/go-sql-driver/mysql"
)

// A program elects a leader on the database that it already has.
func ExampleNew() {
	db, err := sql.Open("mysql", "app:password@tcp(db.example:3306)/app?tls=true")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	backend, err := mysql.New(db, mysql.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := election.New(backend, "billing/nightly", election.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		<-ctx.Done() // act for as long as this process leads
		return nil
	})
}
