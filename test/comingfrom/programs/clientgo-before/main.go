// Command clientgo-before elects one of several processes that bill or report.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cluster, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	config := leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  meta.ObjectMeta{Namespace: "billing", Name: "reports"},
			Client:     kubernetes.NewForConfigOrDie(cluster).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: os.Getenv("POD_NAME")},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { report(ctx) },
			OnStoppedLeading: func() { os.Exit(0) },
		},
	}
	leaderelection.RunOrDie(ctx, config)
}

func report(ctx context.Context) { <-ctx.Done() }
