//go:build linux && interop

package ensemble

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
)

// electing are candidates of one election that lead repeatedly, each for a short time, as
// long as a test runs (scenario-E17).
type electing struct {
	t     *testing.T
	stop  context.CancelFunc
	group sync.WaitGroup

	mu   sync.Mutex
	past []term
}

// term is one leadership as seen by its holder.
type term struct {
	who      string
	token    election.Token
	from, to clock.Instant
}

const electingCandidates = 3

func startElecting(t *testing.T, addrs string) *electing {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	e := &electing{t: t, stop: stop}
	t.Cleanup(e.end)
	for i := range electingCandidates {
		backend, err := zookeeper.New(addrs, zookeeper.Options{})
		must(t, err)
		elector, err := election.New(backend, "rolling", election.Options{ID: fmt.Sprint("candidate ", i),
			Lease: 5 * time.Second, Retry: 10 * time.Millisecond, RetryMax: 200 * time.Millisecond})
		must(t, err)
		e.group.Go(func() {
			_ = elector.Run(ctx, e.lead)
			_ = backend.Close()
		})
	}
	return e
}

// lead leads for a while, or until the very end of its lease.
func (e *electing) lead(ctx context.Context, lead election.Leadership) error {
	one := term{who: lead.ID(), token: lead.Token(), from: clock.Now()}
	select {
	case <-time.After(100 * time.Millisecond): // the leader's work
	case <-ctx.Done():
	}
	one.to = clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.past) > 0 {
		last := e.past[len(e.past)-1]
		if one.from < last.to || one.token <= last.token {
			e.t.Errorf("%+v leads beside or after %+v", one, last)
		}
	}
	e.past = append(e.past, one)
	return nil
}

func (e *electing) end() {
	e.stop()
	e.group.Wait()
}

// finish ends the candidates and returns the number of leaderships.
func (e *electing) finish() int {
	e.end()
	return len(e.past)
}
