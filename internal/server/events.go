package server

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// events are the watch events of a transaction on their way to outboxes. The end of a session
// may delete 100,000 ephemerals, each of which is watched by hundreds of connections. So an
// event is encoded once, and a connection is given consecutive events all at once.
type events struct {
	bytes []byte  // events in their frames
	told  []*conn // the connections that receive one event
	owing []*conn
}

// owed is what a connection has to be given: count events, at bytes from to to.
type owed struct{ from, to, count int32 }

const (
	eventsMax  = 1 << 20  // bytes that gather before they are given to connections
	eventsKeep = 64 << 10 // size of the buffer that is kept for the next transaction
	toldKeep   = 1 << 10  // size of the lists of connections that are kept
)

// Notify implements replica.Clients.
func (d *delivery) Notify(ids []session.ConnID, e *zk.Event) {
	if len(d.events.bytes) >= eventsMax {
		d.Notified()
	}
	from := int32(len(d.events.bytes))
	d.events.bytes = wire.AppendEvent(d.events.bytes, e)
	to := int32(len(d.events.bytes))
	d.events.told = d.server.conns.append(d.events.told[:0], ids)
	for _, c := range d.events.told {
		if c.owed.count == 0 {
			d.events.owing = append(d.events.owing, c)
		}
		if c.owed.to != from {
			d.give(c)
			c.owed.from = from
		}
		c.owed.to = to
		c.owed.count++
	}
}

// Notified implements replica.Clients.
func (d *delivery) Notified() {
	for _, c := range d.events.owing {
		d.give(c)
	}
	if cap(d.events.bytes) > eventsKeep || cap(d.events.told) > toldKeep || cap(d.events.owing) > toldKeep {
		d.events = events{} // large ones are rare, so they are not kept
		return
	}
	clear(d.events.told[:cap(d.events.told)])
	clear(d.events.owing)
	d.events.owing, d.events.bytes = d.events.owing[:0], d.events.bytes[:0]
}

// give puts what a connection is owed into its outbox.
func (d *delivery) give(c *conn) {
	if c.owed.count == 0 {
		return
	}
	c.notify(d.events.bytes[c.owed.from:c.owed.to], int64(c.owed.count))
	c.owed = owed{}
	d.wake(c)
	d.server.relieve()
}
