package main

import (
	"context"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// clientGo is client-go's leaderelection on Leases, with times in the proportions of the
// defaults: a lease of 15 s, renewed within 10, tried every 2.
type clientGo struct{ client *kubernetes.Clientset }

func openClientGo(_ context.Context, url string) (way, error) {
	klog.LogToStderr(false)
	_, file, _ := strings.Cut(url, "kubeconfig=")
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit of its own on the request rate
	client, err := kubernetes.NewForConfig(config)
	return clientGo{client}, err
}

func (clientGo) close() error { return nil }

func (o clientGo) campaign(ctx context.Context, e entrant) error {
	lock := &resourcelock.LeaseLock{LeaseMeta: meta.ObjectMeta{Name: "own-" + e.election, Namespace: "default"},
		Client: o.client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: e.id}}
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{Lock: lock,
			LeaseDuration: e.lease, RenewDeadline: e.lease * 10 / 15, RetryPeriod: e.lease * 2 / 15,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { e.led() }, OnStoppedLeading: func() {}}})
		if err != nil {
			return err
		}
		elector.Run(ctx)
	}
	return nil
}
