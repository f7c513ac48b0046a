package server

import "sync/atomic"

// phase records whether a connection has a goroutine that sees its end. An idle one has none: the
// goroutine that changes its phase starts one, and no other does. So no end is missed, and none
// is seen twice, in whatever order the socket is waited for, becomes ready and is closed.
type phase struct{ now atomic.Int32 }

const (
	phaseActive int32 = iota // it has its goroutine, or has had it
	phaseIdle                // the poller waits for the client's next input
	phaseEnding              // it must see its end, and is no longer idle
)

// idle waits for the client's next input. The calling goroutine is that of the connection, and
// ends then, because a goroutine that has shaken hands or handled a request has a larger stack,
// which it would keep. If the poller cannot wait, a new goroutine does. From phaseIdle on
// another goroutine may own the connection, so only fields that never change may be used.
func (c *conn) idle() {
	s := c.server
	s.tasks.Add(1) // for the goroutine that continues, whenever that is
	c.leaveWork()
	if c.input.isEmpty() && c.phase.now.CompareAndSwap(phaseActive, phaseIdle) {
		if s.poller.watch(c) || !c.phase.now.CompareAndSwap(phaseIdle, phaseActive) {
			return
		}
	}
	s.run(c.awake)
}

// leaveWork releases what the connection needs only when something arrives.
func (c *conn) leaveWork() {
	c.input.reading = nil
	c.resumed.Store(nil)
	c.out.keepNothing()
}

// awake continues when something has arrived.
func (c *conn) awake() {
	c.input.await()
	c.serveOn()
}

// ready continues an idle connection: there is something to read, or the end. It does nothing
// if another goroutine has already continued it.
func (c *conn) ready() {
	if c.phase.now.CompareAndSwap(phaseIdle, phaseActive) {
		c.server.run(c.serveOn)
	}
}

// seeEnd continues a connection if it was idle, and does not let it become idle again: nothing
// notifies the poller of a socket that is closed here, or of a deadline.
func (c *conn) seeEnd() {
	if c.phase.now.Swap(phaseEnding) == phaseIdle {
		c.server.run(c.serveOn)
	}
}

// shut closes the socket. Any goroutine may call it, with locks held. Every close of a
// connection's socket goes through it.
func (c *conn) shut() {
	c.socket.Close()
	c.seeEnd()
}
