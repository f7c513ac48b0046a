// Command etcd-before elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	election := concurrency.NewElection(session, "billing/nightly") // or NewMutex and Lock
	if err := election.Campaign(ctx, "host-1"); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { <-session.Done(); cancel() }()
	bill(ctx, election.Rev())
	_ = election.Resign(context.Background())
}

func bill(ctx context.Context, revision int64) {
	log.Println("leads since revision", revision)
	<-ctx.Done()
}
