// Command consul-before elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/consul/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	lock, err := client.LockOpts(&api.LockOptions{Key: "billing/nightly/.lock", SessionTTL: "15s"})
	if err != nil {
		log.Fatal(err)
	}
	lost, err := lock.Lock(ctx.Done())
	if err != nil || lost == nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { <-lost; cancel() }()
	bill(ctx)
	_ = lock.Unlock()
}

func bill(ctx context.Context) { <-ctx.Done() }
