package election_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
)

// One of several processes on a machine does the work; the others wait.
func Example() {
	dir, err := os.MkdirTemp("", "elections-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	backend, err := file.New(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := election.New(backend, "billing/nightly", election.Options{ID: "host-1", Lease: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		// ctx ends before anybody else may lead; lead.Token() only ever grows.
		fmt.Printf("%s leads %s with token %d\n", lead.ID(), lead.Election(), lead.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// host-1 leads billing/nightly with token 1
	// <nil>
}
