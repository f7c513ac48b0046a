package peernet

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// link is one connection of the quorum port. Its goroutine reads (link_read.go).
// Only one goroutine writes at a time: Flush, or a goroutine to which Flush leaves
// the rest.
type link struct {
	owner  *Links
	id     zab.LinkID // 0: accepted, no message yet
	socket net.Conn
	origin Origin
	from   peerwire.Sender // of what is read; what is written has the other sender
	up     bool            // the handler was told; of the link's goroutine
	dirty  bool            // in Links.mu.dirty; guarded by Links.mu

	server  quorum.ID // the number from the hello; guarded by Links.mu
	greeted bool      // there was a hello

	input   input
	direct  direct      // of the goroutine that writes
	movedAt time.Time   // when it last called Moves
	begun   begun       // the part that it has begun to write
	write   func()      // that goroutine, made once
	written func() bool // endWriting, which is done once
	out     output
}

// output holds what is still to be written: parts, then tail.
type output struct {
	sync.Mutex
	changed sync.Cond // signaled when writing has ended or dead was set
	parts   []part
	few     [1]part // memory for parts, of which there is mostly one
	tail    []byte  // the messages gathered last
	spare   []byte  // memory for tail
	ahead   int64   // bytes in parts and with the writer
	streams int     // snapshots in parts and with the writer
	excused int64   // bytes queued while a snapshot was being sent, and still waiting
	writing bool
	told    bool // the peer was told that it may serve
	closing bool // nothing more is accepted
	dead    bool // nothing more is written
}

// begun is a part of which the socket has taken the first bytes.
type begun struct {
	part part
	done int
}

// A part is bytes, or a snapshot.
type part struct {
	bytes    []byte
	snapshot func(io.Writer) error
}

// partBytes is how much is gathered in one piece of memory: growing a single
// piece for all waiting data would copy it again and again. A piece that became
// larger than spareBytesMax is not reused.
const (
	partBytes     = 256 << 10
	spareBytesMax = 1 << 20
)

// pieces is memory for links on which more data waits than fits in one piece.
var pieces = sync.Pool{New: func() any {
	piece := make([]byte, 0, partBytes+partBytes/8)
	return &piece
}}

func newLink(l *Links, socket net.Conn, from peerwire.Sender) *link {
	k := &link{owner: l, socket: socket, from: from}
	k.out.changed.L = &k.out.Mutex
	k.out.parts = k.out.few[:0]
	k.direct.init(socket)
	k.write = k.writeAll
	k.written = sync.OnceValue(k.endWriting)
	return k
}

// gather appends a message to the output. It returns false if the link accepts nothing
// more.
func (k *link) gather(m *zab.Message) bool {
	o := &k.out
	o.Lock()
	defer o.Unlock()
	if o.closing || o.dead {
		return false
	}
	if len(o.tail) >= partBytes {
		if o.endPart(); o.tail == nil {
			o.tail = (*pieces.Get().(*[]byte))[:0]
		}
	}
	before := len(o.tail)
	o.told = o.told || m.Kind == zab.KindUpToDate
	o.tail = peerwire.AppendMessage(o.tail, m, !k.from)
	k.owner.waiting.Add(int64(len(o.tail) - before))
	if waiting := o.waits(); waiting > o.limit(waiting, k.owner.o.QueueBytesMax) {
		k.tooMuch()
		return false
	}
	return true
}

// serves reports whether the other end may send long packets: requests of its clients.
func (k *link) serves() bool {
	k.out.Lock()
	defer k.out.Unlock()
	return k.out.told || k.from == peerwire.FromLeader
}

// waits returns how many bytes wait. Called with out held.
func (o *output) waits() int64 { return o.ahead + int64(len(o.tail)) }

func (k *link) waits() int64 {
	k.out.Lock()
	defer k.out.Unlock()
	return k.out.waits()
}

// disconnect ends the link at once, because too much waits.
func (k *link) disconnect() {
	k.out.Lock()
	defer k.out.Unlock()
	k.tooMuch()
}

// tooMuch ends the link because too much waits. Called with out held.
func (k *link) tooMuch() {
	k.owner.o.Logger.Warn("disconnected a peer that does not read what is sent to it",
		slog.Any("remote", k.socket.RemoteAddr()), slog.Int64("bytes", k.out.waits()))
	forgetUnsent(k.socket)
	k.die()
}

// besideSnapshot is how many times the limit may wait behind a snapshot. A peer
// that is receiving a snapshot does read; the writes that arrive meanwhile are
// not its fault, and a disconnected peer would need the whole snapshot again.
const besideSnapshot = 4

// limit returns how much may wait. Called with out held.
func (o *output) limit(waiting, usual int64) int64 {
	if o.streams > 0 {
		o.excused = waiting
	}
	return min(usual+o.excused, besideSnapshot*usual)
}

// gatherSnapshot appends a snapshot and its end mark to the output.
func (k *link) gatherSnapshot(write func(io.Writer) error) bool {
	o := &k.out
	o.Lock()
	defer o.Unlock()
	if o.closing || o.dead {
		return false
	}
	o.endPart()
	o.parts = append(o.parts, part{snapshot: write})
	o.streams++
	before := len(o.tail)
	o.tail = jute.AppendString(o.tail, peerwire.SnapshotEnd)
	k.owner.waiting.Add(int64(len(o.tail) - before))
	return true
}

// endPart turns the tail into a part. Called with out held.
func (o *output) endPart() {
	if len(o.tail) == 0 {
		return
	}
	o.ahead += int64(len(o.tail))
	o.parts = append(o.parts, part{bytes: o.tail})
	o.tail, o.spare = o.spare[:0], nil
}

// next takes the part to write next. Called with out held.
func (o *output) next() (part, bool) {
	if len(o.parts) == 0 {
		o.endPart()
	}
	if len(o.parts) == 0 {
		return part{}, false
	}
	p := o.parts[0]
	o.parts[0] = part{}
	if o.parts = o.parts[1:]; len(o.parts) == 0 {
		o.parts = o.few[:0]
	}
	return p, true
}

// free subtracts a written part, and keeps some of its memory. Called with out
// held.
func (o *output) free(p part) {
	o.ahead -= int64(len(p.bytes))
	o.excused = min(o.excused, o.ahead)
	if p.snapshot != nil {
		o.streams--
	}
	switch size := cap(p.bytes); {
	case size > spareBytesMax:
	case o.spare == nil:
		o.spare = p.bytes[:0]
	case size >= partBytes:
		piece := p.bytes // otherwise p would be allocated each time
		pieces.Put(&piece)
	}
}

// flush writes what the socket takes without waiting, and leaves the rest to a goroutine.
func (k *link) flush() {
	o := &k.out
	o.Lock()
	if o.writing || o.dead {
		o.Unlock()
		return
	}
	p, ok := o.next()
	o.writing = ok
	o.Unlock()
	for ok {
		n := 0
		if p.snapshot == nil {
			n = k.direct.write(p.bytes)
		}
		if p.snapshot != nil || n < len(p.bytes) {
			k.owner.tasks.Add(1) // safe: the link's own goroutine is counted until nobody writes
			k.begun = begun{p, n}
			go k.write()
			return
		}
		p, ok = k.wrote(p, nil)
	}
}

// writeAll finishes the part that has begun, and writes everything after it.
func (k *link) writeAll() {
	defer k.owner.tasks.Done()
	p, done := k.begun.part, k.begun.done
	k.begun = begun{}
	for ok := true; ok; done = 0 {
		p, ok = k.wrote(p, k.writePart(p, done))
	}
}

// wrote releases a part that was written, or failed, and returns the next one.
// If there is none, writing has ended.
func (k *link) wrote(p part, err error) (next part, ok bool) {
	o := &k.out
	o.Lock()
	defer o.Unlock()
	if err != nil && !o.dead {
		k.tell("a peer is lost", err)
		k.die()
	}
	if !o.dead {
		k.owner.waiting.Add(-int64(len(p.bytes)))
		o.free(p)
		next, ok = o.next()
	}
	if !ok {
		o.writing = false
		o.changed.Broadcast()
	}
	return next, ok
}

func (k *link) writePart(p part, done int) error {
	if p.snapshot != nil {
		return p.snapshot(patient{k})
	}
	_, err := patient{k}.Write(p.bytes[done:])
	return err
}

// patient writes to a link as long as the peer takes something now and then.
type patient struct{ k *link }

// stepBytes is how much a peer must take within SilenceMax; movesMax is how often within that
// time Moves is called.
const (
	stepBytes = 64 << 10
	movesMax  = 10
)

func (w patient) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		now, silence := time.Now(), w.k.owner.o.SilenceMax
		_ = w.k.socket.SetWriteDeadline(now.Add(silence))
		n, err := w.k.socket.Write(b[done:min(done+stepBytes, len(b))])
		done += n
		if err != nil {
			return done, err
		}
		if now.Sub(w.k.movedAt) >= silence/movesMax {
			w.k.movedAt = now
			w.k.owner.o.Handler.Moves(w.k.id)
		}
	}
	_ = w.k.socket.SetWriteDeadline(time.Time{})
	return done, nil
}

// gone is the writer for a link that no longer exists.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, net.ErrClosed }

// closeAfterQueue ends the link once its output is written. It does not leave that to the link's own
// goroutine, which may be handing over what it has read: a handler whose disk hangs takes long, and
// the other end has to know at once.
func (k *link) closeAfterQueue() {
	o := &k.out
	o.Lock()
	if o.closing || o.dead {
		o.Unlock()
		return
	}
	o.closing = true
	if o.streams > 0 {
		k.die()
	}
	_ = k.socket.SetReadDeadline(time.Unix(1, 0)) // stop reading
	k.owner.tasks.Add(1)                          // safe: the link's own goroutine, which is counted, ends only with a dead link
	o.Unlock()
	k.flush()
	go func() {
		defer k.owner.tasks.Done()
		k.written()
	}()
}

// cut ends the link at once.
func (k *link) cut() {
	k.out.Lock()
	defer k.out.Unlock()
	k.die()
}

// die ends the link; unwritten output is lost. Called with out held.
func (k *link) die() {
	o := &k.out
	if o.dead {
		return
	}
	o.dead = true
	k.owner.waiting.Add(-o.waits())
	for _, p := range o.parts {
		if p.snapshot != nil {
			k.owner.tasks.Add(1) // safe: the link's own goroutine, which is counted, ends only with a dead link
			go func() {
				defer k.owner.tasks.Done()
				_ = p.snapshot(gone{})
			}()
		}
	}
	o.parts, o.tail, o.spare, o.ahead = nil, nil, nil, 0
	bare(k.socket).Close()
	o.changed.Broadcast()
}

// endWriting waits, for at most SilenceMax, until everything queued before a
// Close is written, and then closes the sending side. It returns false if the
// link was not closed, or died.
func (k *link) endWriting() bool {
	limit := time.AfterFunc(k.owner.o.SilenceMax, k.cut)
	defer limit.Stop()
	o := &k.out
	o.Lock()
	for o.closing && !o.dead && (o.writing || len(o.parts) > 0 || len(o.tail) > 0) {
		o.changed.Wait()
	}
	closed := o.closing && !o.dead
	o.Unlock()
	if !closed {
		return false
	}
	half, ok := k.socket.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// awaitSent waits until nothing is left to write.
func (k *link) awaitSent() {
	o := &k.out
	o.Lock()
	defer o.Unlock()
	for !o.dead && (o.writing || len(o.parts) > 0 || len(o.tail) > 0) {
		o.changed.Wait()
	}
}

// still waits until nobody writes.
func (k *link) still() {
	k.out.Lock()
	defer k.out.Unlock()
	for k.out.writing {
		k.out.changed.Wait()
	}
}

// direct writes to a socket without waiting. It belongs to the writer. It holds
// the arguments of its callback, so a call allocates nothing.
type direct struct {
	raw   syscall.RawConn // nil: not possible for this socket
	bytes []byte
	n     int
	call  func(fd uintptr) bool
}

func (d *direct) init(socket net.Conn) {
	d.raw = rawConn(socket)
	d.call = func(fd uintptr) bool {
		d.n = writeSocket(fd, d.bytes)
		return true
	}
}

// write returns how much the socket took.
func (d *direct) write(b []byte) int {
	if d.raw == nil {
		return 0
	}
	d.bytes, d.n = b, 0
	_ = d.raw.Write(d.call) // an error shows up again when the rest is written
	d.bytes = nil
	return d.n
}
