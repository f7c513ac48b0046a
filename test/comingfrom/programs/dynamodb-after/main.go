// Command dynamodb-after elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/dynamodb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	backend, end, err := dynamodb.Open(ctx, "dynamodb://conclave-elections?region=eu-central-1&create=true")
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	elector, err := election.New(backend, "billing/nightly", election.Options{ID: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	if err := elector.Run(ctx, bill); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func bill(ctx context.Context, lead election.Leadership) error {
	log.Println("leads with token", lead.Token())
	<-ctx.Done()
	return nil
}
