package client

import (
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// TestEventsAreLostAfterAMarkOnly lets a reader empty the queue of a persistent watch at
// the same time as the client fills it.
func TestEventsAreLostAfterAMarkOnly(t *testing.T) {
	c := &Client{}
	w := &Watch{c: c, limit: 4, events: make(chan zk.Event, 5)}
	w.inner.Kind = clientsession.PersistentWatch
	go func() {
		for n := range zk.Zxid(1_000_000) {
			for len(w.events) > w.limit { // the mark of a gap hides what would be lost beside it
				runtime.Gosched()
			}
			c.mu.Lock()
			w.notify(zk.Event{Type: zk.EventNodeDataChanged, Zxid: n})
			c.mu.Unlock()
		}
		c.mu.Lock()
		w.end(ErrWatchClosed)
		c.mu.Unlock()
	}()
	next, marks := zk.Zxid(0), 0
	for event := range w.Events() {
		switch {
		case event.Type == zk.EventNone:
			next = zk.NoZxid
			marks++
			continue
		case next != zk.NoZxid && event.Zxid != next:
			t.Fatalf("event %d follows event %d, and nothing says that there were others", event.Zxid, next-1)
		}
		next = event.Zxid + 1
	}
	if marks == 0 {
		t.Error("the reader was never behind")
	}
}
