package server

import (
	"sync"

	"github.com/conclave-project/conclave/internal/replica"
)

// inbox gathers events for the loop. It needs no limit of its own: what a
// connection may have on its way is limited where it reads (conn.go), and what
// other servers send likewise (peerinbox.go).
type inbox struct {
	mu struct {
		sync.Mutex
		events []replica.Event
	}
	ready chan struct{} // holds a token while there are events
}

func (b *inbox) init() { b.ready = make(chan struct{}, 1) }

// put adds events, in order.
func (b *inbox) put(events ...replica.Event) {
	b.mu.Lock()
	b.mu.events = append(b.mu.events, events...)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default: // the loop knows already
	}
}

// take returns all events and leaves spare in their place.
func (b *inbox) take(spare []replica.Event) []replica.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.mu.events
	b.mu.events = spare[:0]
	return events
}
