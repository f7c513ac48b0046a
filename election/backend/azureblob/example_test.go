package azureblob_test

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/azureblob"
)

// A task runs on one of many machines while the mutex is held, and is cancelled
// when the lease is lost, as in the cloud pattern's RunTaskWhenMutexAcquired.
// Here the task gets a token, also ends before its lease does when the service
// cannot be reached, and has ended before the mutex is released.
// mutex is released.
func Example_runTaskWhenMutexAcquired() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	backend, end, err := azureblob.Open(ctx, "azureblob://myaccount/mycontainer")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = end() }()
	mutex, err := election.New(backend, "nightly-report", election.Options{
		Lease: azureblob.LeaseMax, // how long others wait for a machine that died
	})
	if err != nil {
		log.Fatal(err)
	}
	task := func(ctx context.Context, lead election.Leadership) error {
		for {
			log.Printf("working with token %d", lead.Token())
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return context.Cause(ctx) // lost, or told to stop
			}
		}
	}
	if err := mutex.Run(ctx, task); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
