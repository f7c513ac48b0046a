package main

import (
	"context"
	"strings"

	"github.com/hashicorp/consul/api"
)

// consulOwn is the Lock of Consul's client, which `consul lock` uses.
type consulOwn struct{ client *api.Client }

func openConsul(_ context.Context, url string) (way, error) {
	config := api.DefaultConfig()
	config.Address, _, _ = strings.Cut(strings.TrimPrefix(url, "consul://"), "?")
	config.Address = strings.TrimSuffix(config.Address, "/")
	client, err := api.NewClient(config)
	return consulOwn{client}, err
}

func (consulOwn) close() error { return nil }

func (o consulOwn) campaign(ctx context.Context, e entrant) error {
	for ctx.Err() == nil {
		lock, err := o.client.LockOpts(&api.LockOptions{Key: "own/" + e.election, Value: []byte(e.id), SessionTTL: e.lease.String()})
		if err != nil {
			return err
		}
		lost, err := lock.Lock(ctx.Done())
		if err != nil || lost == nil {
			continue // Lock has paused before it returned
		}
		e.led()
		select {
		case <-lost:
		case <-ctx.Done():
		}
		_ = lock.Unlock() // otherwise its session expires
	}
	return nil
}
