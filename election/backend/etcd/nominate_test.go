package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// TestCandidateThatDidNotWarmUpIsAskedAnew when it is nominated again, whether it
// failed or was told to end; one that has warmed up is not. No server is needed.
func TestCandidateThatDidNotWarmUpIsAskedAnew(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, DialTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b := New(client, Options{})
	asked, calls := make(chan int), 0
	claim := election.Claim{Election: "jobs", ID: "a", Nonce: "00000000000000000000000000000001", Lease: 10 * time.Second}
	claim.Warm = func(ctx context.Context) error {
		calls++
		asked <- calls
		switch calls {
		case 1:
			return errors.New("cold")
		case 2:
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	s, err := b.add(claim)
	if err != nil {
		t.Fatal(err)
	}
	w := &waiter{backend: b, seat: s, ttl: 10 * time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 3 {
		w.warm(ctx, nomination{Nominee: s.key, revision: int64(i + 1)})
		select {
		case n := <-asked:
			if n != i+1 {
				t.Fatalf("nominated for the time %d and asked for the time %d", i+1, n)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nominated for the time %d and not asked to warm up: it says that it is ready", i+1)
		}
	}
	cancel()
	<-w.warming.done
	if err := w.warming.warmUp(t.Context(), claim.Warm); err != nil || calls != 3 {
		t.Errorf("one that has warmed up was asked again: %d times, %v", calls, err)
	}
}
