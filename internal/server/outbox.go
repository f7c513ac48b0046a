package server

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// outbox holds what a connection has to be sent, as bytes, in order (server-H3). The loop and
// the connection's own goroutine add to it; whichever of them finds that nobody is writing it
// writes it.
type outbox struct {
	mu      sync.Mutex
	bytes   []byte
	conn    *conn
	flying  int   // bytes that the writer has
	counted int   // bytes included in the total of all outboxes
	awaitMs int64 // since when the client has not accepted what the writer has; 0 is not known
	writing bool
	ended   bool // nothing more is added; the socket closes when everything is sent
	over    bool // the limit was exceeded: the connection must be closed
	lags    bool // it is among the laggards
	out     bool // permanently removed from the total and from the laggards
}

// count updates the total of all outboxes, which may lack up to countStep bytes of each,
// because all cores use it. It is called with mu held.
func (o *outbox) count() {
	if bytes := len(o.bytes) + o.flying; !o.out && (bytes < o.counted || bytes > o.counted+countStep) {
		o.hold(bytes)
	}
}

// countStep is how many bytes an outbox may grow before the total is updated.
const countStep = 1 << 10

func (o *outbox) hold(bytes int) {
	s := o.conn.server
	s.outboxBytes.Add(int64(bytes - o.counted))
	o.counted = bytes
	if lags := bytes > outboxCrowded; lags || o.lags {
		o.lags = lags
		s.laggards.note(o.conn, bytes)
	}
}

// leave removes the outbox of a connection that ends from the total: a writer may still be
// active. It is called with mu held.
func (o *outbox) leave() {
	o.hold(0)
	o.out = true
}

// remove is leave for a connection that has ended.
func (o *outbox) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.leave()
}

func (o *outbox) isOver() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// outboxKeep is the maximum buffer that a quiet connection may keep.
const outboxKeep = 1 << 10

// loanBytes is the size of a loan: a buffer in which the replies to one batch of reads gather.
// It is returned when they are sent, or when they have to wait for the client, so a client that
// does not read holds none.
const loanBytes = 16 << 10

var loans = sync.Pool{New: func() any { return new([loanBytes]byte) }}

// borrow gives the outbox a loan, if it is empty and will be written soon. It is called with mu
// held.
func (o *outbox) borrow() {
	if cap(o.bytes) < loanBytes && len(o.bytes) == 0 && !o.writing && o.conn.input.raw != nil {
		o.bytes = loans.Get().(*[loanBytes]byte)[:0]
	}
}

// lend gives a loan to an outbox in which replies of the loop gather, once they are larger than
// what a quiet connection keeps. The loop calls it, with mu held: what it lends in a step is
// written at the end of the step.
func (o *outbox) lend() {
	s := o.conn.server
	if len(o.bytes) < outboxKeep/2 || cap(o.bytes) >= loanBytes || o.writing || o.conn.input.raw == nil || s.lent == lentMax {
		return
	}
	s.lent++
	o.bytes = append(loans.Get().(*[loanBytes]byte)[:0], o.bytes...)
}

// lentMax is how many loans the loop gives in one step: 4 MiB in total.
const lentMax = 256

// keep lets a quiet connection keep a buffer for what comes next. It is called with mu held.
func (o *outbox) keep(spare []byte) {
	if cap(o.bytes) == 0 {
		o.bytes = spare[:0]
	}
}

// keepNothing releases the buffer of a connection that becomes idle.
func (o *outbox) keepNothing() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bytes) == 0 {
		o.bytes = nil
	}
}

// spareOf returns what an outbox may keep of a buffer that was sent; a loan is returned
// instead.
func spareOf(sent []byte) []byte {
	if cap(sent) == loanBytes {
		loans.Put((*[loanBytes]byte)(sent[:loanBytes]))
		return nil
	}
	if cap(sent) > outboxKeep {
		return nil
	}
	return sent
}

// unsent returns the bytes that are still to be sent; if they are in a loan, they are copied
// and the loan is returned.
func unsent(bytes []byte, n int) []byte {
	if cap(bytes) != loanBytes {
		return bytes[n:]
	}
	rest := append([]byte(nil), bytes[n:]...)
	spareOf(bytes)
	return rest
}

// outboxCrowded is how many bytes may wait for a write before reading from the connection
// stops.
const outboxCrowded = 1 << 20

// end makes what is in the outbox the last that is sent.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// crowded reports whether the client lags so far that it must not be given more work.
func (o *outbox) crowded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing && len(o.bytes) > outboxCrowded && !o.ended && !o.over
}

// take hands the bytes to a writer; false if there is nothing to do or another one is already
// writing. A writer calls take again until it returns false.
func (o *outbox) take(spare []byte, again bool) (bytes []byte, closing, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing && !again {
		return nil, false, false
	}
	o.writing, o.flying, o.awaitMs = false, 0, 0
	defer o.count()
	if o.over {
		return nil, true, true
	}
	if len(o.bytes) == 0 {
		o.keep(spare)
		return nil, o.ended, o.ended
	}
	o.writing = true
	bytes = o.bytes
	o.bytes, o.flying = spare[:0], len(o.bytes)
	return bytes, false, true
}

// checkOutbox closes a connection whose client does not read. Nothing can be left out, so the
// client must connect again. It is called with out.mu held.
func (c *conn) checkOutbox() {
	c.out.count()
	if len(c.out.bytes) > c.server.cfg.OutboxBytesMax {
		c.overrun()
	}
}

// overrun ends a connection whose client is too slow. It is called with out.mu held.
func (c *conn) overrun() {
	c.out.over, c.out.bytes = true, nil
	c.out.leave()
	c.shut()
}

// connected answers the handshake.
func (c *conn) connected(r *wire.ConnectResponse) {
	c.out.mu.Lock()
	if !c.out.ended {
		c.out.bytes = wire.AppendConnectResponse(c.out.bytes, r)
	}
	c.stats.sent++
	c.stats.lastZxid, c.stats.respondedMs = c.server.reader.Tree.LastZxid(), c.server.loopMs
	c.out.mu.Unlock()
	c.timeoutMs.Store(r.TimeoutMs)
	c.sessionID.Store(int64(r.Session))
	c.finish(0)
}

// reply answers a request that the loop had.
func (c *conn) reply(h wire.ReplyHeader, r *zk.Result) (written int) {
	c.out.mu.Lock()
	if !c.out.ended && !c.out.over {
		before := len(c.out.bytes)
		c.out.lend()
		c.out.bytes = wire.AppendReply(c.out.bytes, h, r)
		written = len(c.out.bytes) - before
		c.replies.note(written)
		c.checkOutbox()
	} else {
		c.server.meters.staleReplies.Add(1)
	}
	bytes := c.stats.answered(h.Zxid, c.server)
	c.out.mu.Unlock()
	c.finish(bytes)
	c.server.relieve()
	return written
}

// reached is for a request that the connection, which is waiting for its turn, answers itself:
// the connection counts the answer.
func (c *conn) reached() { c.finish(0) }

// notify sends count watch events, which are already in their frames.
func (c *conn) notify(events []byte, count int64) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.stats.sent += count
	if !c.out.ended && !c.out.over {
		c.out.bytes = append(c.out.bytes, events...)
		c.server.meters.bytesEvents.Add(int64(len(events)))
		c.checkOutbox()
	}
}

// flush writes until the outbox is empty, and closes the socket if the connection has ended.
// Several goroutines may call it; one of them writes.
func (c *conn) flush() { c.flushFrom(false) }

// flushMore continues as the writer.
func (c *conn) flushMore() { c.flushFrom(true) }

func (c *conn) flushFrom(again bool) {
	var spare []byte
	for ; ; again = true {
		bytes, closing, ok := c.out.take(spare, again)
		if !ok {
			return
		}
		if closing {
			c.hangUp()
			return
		}
		if spare, ok = c.write(bytes); !ok {
			return
		}
	}
}

// halfCloser is a connection that can be closed in one direction.
type halfCloser interface{ CloseWrite() error }

// hangUp ends a connection when everything is sent. What the client has pipelined after the end
// is read and discarded: closing a socket with unread input resets it, and the reset may
// overtake the last reply. The client's own end, or the grace, ends the goroutine that reads.
func (c *conn) hangUp() {
	half, ok := c.socket.(halfCloser)
	if !ok || c.out.isOver() || half.CloseWrite() != nil {
		c.shut()
		return
	}
	c.socket.SetReadDeadline(time.Now().Add(c.server.closeGrace))
	c.seeEnd()
}

// write sends bytes, however long the client takes, as long as it accepts some of them within
// its session timeout. What a client leaves unread counts in the budget of all. A client that
// has accepted bytes after a wait is alive: its own messages may have to wait until it has
// read. What the kernel accepts at once, even for a dead client, proves nothing. write returns
// what the outbox may keep of the buffer.
func (c *conn) write(bytes []byte) (spare []byte, ok bool) {
	n, err := c.writeNow(bytes)
	if err != nil || n < len(bytes) {
		bytes, n = unsent(bytes, n), 0
	}
	beganMs := c.server.monoMs()
	for err == nil && n < len(bytes) {
		c.out.awaits(c, beganMs)
		var more int
		more, err = c.socket.Write(bytes[n:min(n+writeStep, len(bytes))])
		if nowMs := c.server.monoMs(); err == nil && nowMs-beganMs >= c.touchEveryMs() {
			c.touch(nowMs)
		}
		n += more
	}
	if err != nil {
		c.out.end()
		c.shut()
	}
	c.resume() // it may wait for space in the outbox, or must notice that the connection has ended
	return spareOf(bytes), err == nil
}

// writeStep is how many bytes a client must accept within its session timeout.
const writeStep = 64 << 10

// awaits starts the time limit of the client. A connection that is ending has a limit of its
// own.
func (o *outbox) awaits(c *conn, beganMs int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.awaitMs == 0 {
		o.awaitMs = max(beganMs, 1)
	}
	if !o.ended {
		limit := max(time.Duration(c.timeoutMs.Load())*time.Millisecond, c.server.closeGrace)
		_ = c.socket.SetWriteDeadline(time.Now().Add(limit))
	}
}

// writeNow writes what the socket accepts without waiting.
func (c *conn) writeNow(bytes []byte) (n int, err error) {
	if c.input.raw == nil {
		return 0, nil
	}
	err = c.input.raw.Write(func(fd uintptr) bool {
		n = writeSocket(fd, bytes)
		return true
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil // the deadline is that of an earlier wait
	}
	return n, err
}

// flushOnce writes what the socket accepts without waiting, and leaves the rest to a goroutine.
// The loop calls it, which must not wait for a client.
func (c *conn) flushOnce() {
	if c.input.raw == nil {
		c.flushAside()
		return
	}
	bytes, closing, ok := c.out.take(nil, false)
	switch {
	case !ok:
		return
	case closing:
		c.hangUp()
		return
	}
	n, err := c.writeNow(bytes)
	if err == nil && n == len(bytes) {
		if c.out.rest(spareOf(bytes)) {
			return
		}
		bytes = nil
	} else {
		bytes = unsent(bytes, n)
	}
	c.server.task(func() {
		if _, ok := c.write(bytes); ok {
			c.flushMore()
		}
	})
}

// rest ends the writing if there is nothing more. spare is a buffer that may be kept.
func (o *outbox) rest(spare []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bytes) > 0 || o.ended || o.over {
		return false
	}
	o.writing, o.flying = false, 0
	o.keep(spare)
	o.count()
	return true
}

// flushAside writes in a goroutine of its own, which ends when the outbox is empty: an idle
// connection has no writer.
func (c *conn) flushAside() { c.server.task(c.flush) }
