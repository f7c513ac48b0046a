package record_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// counted counts the reads of a store.
type counted struct {
	*record.Memory
	reads atomic.Int64
}

func (c *counted) Read(ctx context.Context, name string) (record.Record, string, error) {
	c.reads.Add(1)
	return c.Memory.Read(ctx, name)
}

// TestWaitingCandidatesDoNotReadWhatTheyAreTold: a hundred processes wait. The leader renews,
// the successor shows that it waits, and the others ask for nothing. When the leader has died,
// one of them leads soon.
func TestWaitingCandidatesDoNotReadWhatTheyAreTold(t *testing.T) {
	synctest.Test(t, waitingCandidatesDoNotReadWhatTheyAreTold)
}

func waitingCandidatesDoNotReadWhatTheyAreTold(t *testing.T) {
	const processes, lease, leases = 100, time.Second, 20
	c := electiontest.VirtualClock(1)
	store := &counted{Memory: record.NewMemory(c)}
	led := make(chan string, processes)
	var leader *record.Backend
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, processes)
	for n := range processes {
		b := record.New(store, record.Options{Clock: c})
		if n == 0 {
			leader = b
		}
		e, err := election.New(b, "e", election.Options{ID: fmt.Sprint(n), Lease: lease, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, l election.Leadership) error {
				led <- fmt.Sprint(n)
				<-ctx.Done()
				return nil
			})
		}()
		if n == 0 {
			<-led
		}
	}
	time.Sleep(2 * lease) // all wait
	before := store.reads.Load()
	time.Sleep(leases * lease)
	reads := store.reads.Load() - before
	// Three times per lease the successor reads before it writes, and the leader's renewal
	// finds the successor's write.
	t.Logf("%d reads in %d leases", reads, leases)
	if reads > 7*leases {
		t.Errorf("%d reads in %d leases, with one leader and %d who wait", reads, leases, processes-1)
	}
	died := time.Now()
	_ = leader.Close()
	if who := <-led; who == "0" || time.Since(died) > 2*lease {
		t.Errorf("%s leads %v after the leader has died", who, time.Since(died))
	}
	stop()
	for range processes {
		<-ended
	}
}
