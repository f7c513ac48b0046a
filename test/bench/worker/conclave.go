package main

import (
	"context"
	"fmt"
	"strings"

	redislog "github.com/redis/go-redis/v9/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/consul"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/backend/kubernetes"
	"github.com/conclave-project/conclave/election/backend/nats"
	"github.com/conclave-project/conclave/election/backend/postgres"
	"github.com/conclave-project/conclave/election/backend/redis"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
)

// conclave is our own SDK.
type conclave struct {
	backend election.Backend
	end     func() error
}

func openConclave(ctx context.Context, url string) (way, error) {
	redislog.Disable()
	scheme, rest, _ := strings.Cut(url, "://")
	if scheme == "zookeeper" {
		b, err := zookeeper.New(rest, zookeeper.Options{})
		if err != nil {
			return nil, err
		}
		return conclave{b, b.Close}, nil
	}
	open := map[string]func(context.Context, string) (election.Backend, func() error, error){
		"consul": consul.Open, "etcd": etcd.Open, "kubernetes": kubernetes.Open, "nats": nats.Open,
		"postgres": postgres.Open, "redis": redis.Open}[scheme]
	if open == nil {
		return nil, fmt.Errorf("no store %q", scheme)
	}
	b, end, err := open(ctx, url)
	return conclave{b, end}, err
}

func (c conclave) close() error { return c.end() }

func (c conclave) campaign(ctx context.Context, e entrant) error {
	elector, err := election.New(c.backend, e.election, election.Options{ID: e.id, Lease: e.lease})
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
		e.led()
		<-ctx.Done()
		return nil
	})
}
