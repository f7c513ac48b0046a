// Command clientgo-after elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cluster, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	backend, err := kubernetes.New(cluster, kubernetes.Options{Namespace: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	elector, err := election.New(backend, "reports", election.Options{ID: os.Getenv("POD_NAME")})
	if err != nil {
		log.Fatal(err)
	}
	if err := elector.Run(ctx, report); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func report(ctx context.Context, lead election.Leadership) error {
	log.Println("leads with token", lead.Token())
	<-ctx.Done()
	return nil
}
