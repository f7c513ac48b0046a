package server

import "sync/atomic"

// phase is whether a connection has a goroutine that sees its end. An idle one has none: the
// goroutine that changes this phase starts one, and no other does. So no end is missed, and
// none is seen twice, in whichever order the socket is waited for, found ready and closed.
type phase struct{ now atomic.Int32 }

const (
	phaseActive int32 = iota // it has its goroutine, or has had it
	phaseIdle                // the poller waits for what its client says next
	phaseEnding              // it is to see its end, and is not idle any more
)

// idle waits for what the client says next. The calling goroutine is that of the connection,
// and ends then: one that has shaken hands, or has handled a request, has a larger stack,
// which it would keep. Where the poller cannot wait a new goroutine does. From phaseIdle on
// another goroutine may have the connection: of it only what never changes is looked at.
func (c *conn) idle() {
	s := c.server
	s.tasks.Add(1) // of the goroutine that goes on, whenever that is
	c.leaveWork()
	if c.input.isEmpty() && c.phase.now.CompareAndSwap(phaseActive, phaseIdle) {
		if s.poller.watch(c) || !c.phase.now.CompareAndSwap(phaseIdle, phaseActive) {
			return
		}
	}
	s.run(c.awake)
}

// leaveWork gives up what the connection needs again when something comes.
func (c *conn) leaveWork() {
	c.input.reading = nil
	c.resumed.Store(nil)
	c.out.keepNothing()
}

// awake goes on when something has come.
func (c *conn) awake() {
	c.input.await()
	c.serveOn()
}

// ready goes on with an idle connection: there is something to read, or the end. It does
// nothing if another has begun with that.
func (c *conn) ready() {
	if c.phase.now.CompareAndSwap(phaseIdle, phaseActive) {
		c.server.run(c.serveOn)
	}
}

// seeEnd goes on with a connection that has been idle, and lets it be so no more: nothing
// tells the poller of a socket that is closed here, or of a time that is over.
func (c *conn) seeEnd() {
	if c.phase.now.Swap(phaseEnding) == phaseIdle {
		c.server.run(c.serveOn)
	}
}

// shut closes the socket. Any goroutine may call it, with locks held. All that closes the
// socket of a connection comes here.
func (c *conn) shut() {
	c.socket.Close()
	c.seeEnd()
}
