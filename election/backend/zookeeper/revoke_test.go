package zookeeper

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
)

// TestReleaseBesideCloseBeginsNothing: a leader may release while Close waits for the last
// goroutine. A goroutine that begins just as that one ends makes Close panic, once in many
// runs; the race detector finds it each time.
func TestReleaseBesideCloseBeginsNothing(t *testing.T) {
	for range 2000 {
		s, err := newStore("127.0.0.1:1", Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New("127.0.0.1:1", client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Detach()
		e := s.Entry(t.Context(), election.Claim{Election: "e", Lease: time.Second}).(*entry)
		e.client.Store(c)
		s.enter()
		var all sync.WaitGroup
		all.Go(func() { _ = s.close(false) })
		<-s.life.Done()
		all.Go(s.group.Done)
		if err := e.Revoke(t.Context()); !errors.Is(err, election.ErrClosed) {
			t.Errorf("Revoke returned %v", err)
		}
		all.Wait()
	}
}
