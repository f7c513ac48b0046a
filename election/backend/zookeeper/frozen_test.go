package zookeeper_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm/machines"
)

// TestFrozenServerCostsNoLeadership (zookeeper-K7): one server after the other stops answering
// its clients, at any moment between two renewals, while the others serve.
func TestFrozenServerCostsNoLeadership(t *testing.T) {
	for _, lease := range []time.Duration{4 * time.Second, 10 * time.Second} {
		t.Run(fmt.Sprint(lease), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leadBesideFrozenServers(t, lease) })
		})
	}
}

func leadBesideFrozenServers(t *testing.T, lease time.Duration) {
	const own = 11
	random := rand.New(rand.NewPCG(1, uint64(lease)))
	servers := machines.Start(t, random, machines.Options{Far: time.Millisecond, Say: t.Logf, Breach: t.Errorf})
	defer servers.End()
	clock := bubble.Clock(1)
	backend, err := zookeeper.New(servers.Addresses(), zookeeper.Options{
		Client: client.Options{Dialer: servers.Net.Dialer(own), Clock: clock, Seed: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = backend.Close() }()
	e, err := election.New(backend, "e", election.Options{ID: "a", Lease: lease, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	leads, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
			leads <- struct{}{}
			<-ctx.Done()
			return nil
		})
	}()
	<-leads
	for range 8 {
		for id := 1; id <= servers.Len(); id++ {
			servers.Net.Cut(own, id, true)
			servers.Net.Cut(id, own, true)
			time.Sleep(2 * lease)
			servers.Net.Heal()
			time.Sleep(time.Duration(random.Int64N(int64(lease))))
		}
	}
	if lost := len(leads); lost > 0 {
		t.Errorf("leadership was lost %d times while all servers but one answered", lost)
	}
	cancel()
	<-ended
}
