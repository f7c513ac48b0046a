package queue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
)

// busy is a store that takes a second for each entry, however many arrive.
type busy struct {
	*memory

	mu                    sync.Mutex
	entering, most, queue int
}

type busyEntry struct {
	Entry // has nothing that is asked for here but what follows
	of    *busy
}

func (s *busy) Entry(context.Context, election.Claim) Entry { return busyEntry{of: s} }

func (busyEntry) Create(context.Context) (Lease, error) { return Lease{}, nil }
func (busyEntry) Place(context.Context) (Place, error)  { return Place{Standing: Queued}, nil }
func (busyEntry) Revoke(context.Context) error          { return nil }

func (e busyEntry) Enter(context.Context) error {
	e.of.count(1, 0)
	time.Sleep(time.Second)
	e.of.count(-1, 1)
	return nil
}

func (e busyEntry) Wait(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return nil
}

func (s *busy) count(entering, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entering, s.queue = s.entering+entering, s.queue+queued
	s.most = max(s.most, s.entering)
}

// TestManyClaimsJoinAFewAtATime: claims that wait keep nobody from joining.
func TestManyClaimsJoinAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busy{memory: newMemory()}
		b := New(s, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for n := range 4 * joinsMax {
			group.Go(func() {
				claim := newClaim(n, time.Hour)
				_, _ = b.Acquire(ctx, claim) // ends with the context
				_ = b.Release(context.Background(), election.Grant{Claim: claim})
			})
		}
		time.Sleep(6 * time.Second)
		s.mu.Lock()
		most, queued := s.most, s.queue
		s.mu.Unlock()
		if most != joinsMax || queued != 4*joinsMax {
			t.Errorf("%d have joined at a time, not %d, and %d of %d wait", most, joinsMax, queued, 4*joinsMax)
		}
		cancel()
		group.Wait()
		_ = b.Close()
	})
}
