package server

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// events are those of a transaction on their way to outboxes. The end of a session may have
// 100,000 ephemerals, each of which is told to hundreds of connections: so an event is
// written once, and a connection is given all that it is told in a row at once.
type events struct {
	bytes []byte  // in their frames
	told  []*conn // of one
	owing []*conn
}

// owed is what a connection is to be given of the events: so many, from here to there.
type owed struct{ from, to, count int32 }

const (
	eventsMax  = 1 << 20  // bytes that gather before they are given
	eventsKeep = 64 << 10 // bytes that are kept for the next transaction
	toldKeep   = 1 << 10  // connections, too
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
		d.events = events{} // so many are rare
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
