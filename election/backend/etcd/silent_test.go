package etcd

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
)

// stand has a candidate campaign, which sends its id when it leads.
func stand(t *testing.T, l *linked, id string, led chan<- string) *election.Elector {
	its := bubble.Clock(1)
	b, end := backendOn(l, its)
	elector, err := election.New(b, "jobs", election.Options{ID: id, Lease: 4 * time.Second, Clock: its})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		_ = elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
			led <- id
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = b.Close()
		end()
	})
	return elector
}

// TestWaiterWithoutWatchesKeepsItsPlace: the server that has the watches may be silent while others
// answer.
func TestWaiterWithoutWatchesKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, led := newCluster(bubble.Clock(1)), make(chan string, 2)
		leader := stand(t, &linked{cluster: cluster}, "a", led)
		time.Sleep(time.Second)
		stand(t, &linked{cluster: cluster, silent: func(request any) bool { _, watch := request.(*pb.WatchRequest); return watch }}, "b", led)
		time.Sleep(10 * time.Second)
		before, _ := cluster.left()
		time.Sleep(time.Minute)
		if got, _ := cluster.left(); len(before) != 2 || !slices.Equal(got, before) {
			t.Fatalf("the leases were %d, and are %d a minute later", before, got)
		}
		if err := leader.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if first, next := <-led, <-led; first != "a" || next != "b" || time.Since(began) > 4*time.Second {
			t.Fatalf("%s has led, and %s leads %v later", first, next, time.Since(began))
		}
	})
}

// TestCandidateDoesNotWaitForASilentServer, but asks again, possibly another server.
func TestCandidateDoesNotWaitForASilentServer(t *testing.T) {
	for what, of := range map[string]func(request any) bool{
		"lease": func(request any) bool { _, ok := request.(*pb.LeaseGrantRequest); return ok },
		"key": func(request any) bool {
			r, ok := request.(*pb.TxnRequest)
			return ok && len(r.Failure) > 0 && len(r.Compare) == 1
		},
		"history": func(request any) bool { _, ok := request.(*pb.RangeRequest); return ok },
		"proof":   func(request any) bool { r, ok := request.(*pb.TxnRequest); return ok && len(r.Compare) == 2 },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, led := time.Now(), make(chan string, 1)
				var asked atomic.Int64
				stand(t, &linked{cluster: newCluster(bubble.Clock(1)), silent: func(request any) bool {
					silent := of(request) && time.Since(began) < 3*time.Second
					if silent {
						asked.Add(1)
					}
					return silent
				}}, "a", led)
				select {
				case <-led:
				case <-time.After(20 * time.Second):
					t.Error("nobody leads after 20 s")
				}
				if asked.Load() == 0 {
					t.Error("it was not asked for")
				}
			})
		})
	}
}

// TestOneSilentServerCostsNoLeadership: the client sends its requests to three servers in turn, and
// one of them does not answer.
func TestOneSilentServerCostsNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		silent := func(any) bool { return asked.Add(1)%3 == 0 }
		cluster, led := newCluster(bubble.Clock(1)), make(chan string, 100)
		leader := stand(t, &linked{cluster: cluster, silent: silent}, "a", led)
		if first := <-led; first != "a" {
			t.Fatalf("%s leads", first)
		}
		stand(t, &linked{cluster: cluster, silent: silent}, "b", led)
		time.Sleep(time.Minute)
		if len(led) > 0 {
			t.Errorf("%s leads, though it is not its turn", <-led)
		}
		if err := leader.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if next := <-led; next != "b" || time.Since(began) > 8*time.Second {
			t.Errorf("%s leads %v later", next, time.Since(began))
		}
	})
}

// TestSlowClusterIsNotAskedThreeTimesAsMuch: while no request has an answer, at most extraMax
// additional copies are sent, for all requests together.
func TestSlowClusterIsNotAskedThreeTimesAsMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := (&linked{cluster: newCluster(bubble.Clock(1))}).client()
		defer client.Close()
		s := newStoreOn(client, nil, Options{}, bubble.Clock(1).Now)
		// All end at once, and not when copies are due: one that has ended makes space for a copy of another.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+patienceMax/2)
		defer cancel()
		const requests = 100
		var asked atomic.Int64
		var all sync.WaitGroup
		for range requests {
			all.Go(func() {
				_, _ = hedged(ctx, s, patienceMax, func(ctx context.Context) (int, error) {
					asked.Add(1)
					<-ctx.Done()
					return 0, ctx.Err()
				})
			})
		}
		all.Wait()
		if n := asked.Load(); n != requests+extraMax {
			t.Errorf("%d requests were made for %d", n, requests)
		}
		synctest.Wait()
		if !s.extra.take() {
			t.Error("no slot is free again")
		}
	})
}
