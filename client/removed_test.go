package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/zk"
)

// TestWatchesEndThoughTheirRemovalWasGivenUp has a server that has removed the
// watches, and would not report changes any more.
func TestWatchesEndThoughTheirRemovalWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		f := &fake{script: func(_ *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpRemoveWatches {
				<-let
			}
			return false
		}}
		c := f.start(t, nil)
		_, _, once, err := c.GetW(t.Context(), "/a")
		must(t, err)
		lasting, err := c.Watch(t.Context(), "/a", zk.WatchPersistent)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		removed := make(chan error, 1)
		go func() { removed <- c.RemoveWatches(ctx, "/a", zk.WatcherAny) }()
		synctest.Wait()
		cancel()
		if err := <-removed; !errors.Is(err, context.Canceled) || OutcomeOf(err) != Unknown {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		close(let)
		synctest.Wait()
		for w, want := range map[*Watch]zk.EventType{once: zk.EventDataWatchRemoved, lasting: zk.EventPersistentWatchRemoved} {
			select {
			case event := <-w.Events():
				if event.Type != want || !errors.Is(w.Err(), zk.ErrNoWatcher) {
					t.Errorf("%v, %v", event, w.Err())
				}
			default:
				t.Errorf("the server has removed the watch for %v, and it goes on", want)
			}
		}
		must(t, c.Close())
	})
}
