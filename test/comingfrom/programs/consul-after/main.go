// Command consul-after elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/consul"
	"github.com/hashicorp/consul/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	backend := consul.New(client, consul.Options{})
	defer backend.Close()
	elector, err := election.New(backend, "billing/nightly", election.Options{Lease: 15 * time.Second})
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
