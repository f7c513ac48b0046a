// Command etcd-after elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	backend := etcd.New(client, etcd.Options{})
	defer backend.Close()
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
