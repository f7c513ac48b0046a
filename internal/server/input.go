package server

import (
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/conclave-project/conclave/internal/wire"
)

const (
	inputBytes = 64 << 10 // of one read
	firstMax   = 4 << 10  // longest first frame: a handshake takes 45 bytes
)

// input is the reading side of a connection. Between reads it keeps only the beginning of an
// incomplete frame.
type input struct {
	socket   net.Conn
	frameMax int             // jute.maxbuffer
	raw      syscall.RawConn // nil if the socket cannot be polled
	partial  []byte          // an incomplete frame
	*reading                 // nil while the connection is idle
}

// reading is what an input needs only while the connection has its goroutine.
type reading struct {
	of    *conn  // counts the memory of a long request; nil: it is not counted
	rest  []byte // the part of the scratch buffer that is still to be handled
	most  int    // maximum size of the next read
	aside int    // size of the next read from a socket that cannot be polled
	poll  func(fd uintptr) bool
	w     *scratch
	n     int
	err   error
}

func (in *input) init(c *conn, socket net.Conn, frameMax int) {
	in.socket, in.frameMax = socket, frameMax
	if tcp, ok := socket.(*net.TCPConn); ok && polled {
		if raw, err := tcp.SyscallConn(); err == nil {
			in.raw = raw
		}
	}
	in.begin(c)
}

// begin prepares a connection that has its goroutine again.
func (in *input) begin(c *conn) {
	if in.reading == nil {
		in.reading = &reading{of: c, poll: in.tryRead}
	}
}

// first reads the first frame of a connection into its own memory. What follows it is kept for
// later.
func (in *input) first() ([]byte, error) {
	in.partial = make([]byte, 0, 64)
	for {
		if len(in.partial) >= wire.PrefixBytes {
			if isFourLetterWord(in.partial) {
				return nil, nil
			}
			n, err := wire.FrameLength(in.partial, firstMax)
			if err != nil {
				return nil, err
			}
			if len(in.partial) >= wire.PrefixBytes+n {
				payload := in.partial[wire.PrefixBytes : wire.PrefixBytes+n : wire.PrefixBytes+n]
				in.partial = append([]byte(nil), in.partial[wire.PrefixBytes+n:]...)
				return payload, nil
			}
		}
		if len(in.partial) == cap(in.partial) {
			in.partial = append(in.partial, 0)[:len(in.partial)]
		}
		n, err := in.socket.Read(in.partial[len(in.partial):cap(in.partial)])
		if err != nil {
			return nil, err
		}
		in.partial = in.partial[:len(in.partial)+n]
	}
}

// atEnd reports whether the client has closed the connection; false if that cannot be known
// without reading.
func (in *input) atEnd() bool {
	if in.raw == nil {
		return false
	}
	ended := false
	_ = in.raw.Control(func(fd uintptr) { ended = socketEnded(fd) })
	return ended
}

// isEmpty reports whether nothing has been kept, on a socket that can be polled.
func (in *input) isEmpty() bool { return in.raw != nil && len(in.partial) == 0 }

// await waits until there is input, or the end; it needs next to no memory.
func (in *input) await() {
	if in.isEmpty() {
		_ = in.raw.Read(socketReady)
	}
}

// read waits for input, and returns a scratch whose rest has up to most bytes of it, after what
// was kept. It takes a scratch only when something has arrived.
func (in *input) read(most int) (*scratch, error) {
	in.most = most
	if err := in.gather(); err != nil {
		return nil, err
	}
	if w := in.pending(); w != nil {
		return w, nil
	}
	in.n, in.err = 0, nil
	if in.raw == nil {
		in.readAside()
	} else if err := in.raw.Read(in.poll); err != nil && in.err == nil {
		in.err = err
	}
	w := in.w
	in.w = nil
	if in.err == nil && in.n == 0 {
		in.err = io.EOF
	}
	if in.err != nil {
		if w != nil {
			scratches.Put(w)
		}
		return nil, in.err
	}
	in.rest = w.buffer[:len(in.partial)+in.n]
	return w, nil
}

// gather reads a long frame that has begun directly into the memory where it is kept, until it
// is complete. If it were copied into a scratch and back with every byte that arrives, a slow
// sender could cause any amount of work.
func (in *input) gather() error {
	gathered := false
	for len(in.partial) >= wire.PrefixBytes {
		n, err := wire.FrameLength(in.partial, in.frameMax)
		missing := wire.PrefixBytes + n - len(in.partial)
		if err != nil || n <= inputBytes/2 || missing <= 0 {
			break
		}
		if len(in.partial) == cap(in.partial) {
			in.partial = slices.Grow(in.partial, min(len(in.partial), missing))
			in.of.begins(cap(in.partial))
			gathered = true
		}
		space := in.partial[len(in.partial):cap(in.partial)]
		got, err := in.readInto(space[:min(len(space), missing)])
		if err != nil {
			return err
		}
		in.partial = in.partial[:len(in.partial)+got]
	}
	if gathered {
		in.of.begins(0)
	}
	return nil
}

// unfinishedLeast is how many requests of maximum length may always be unfinished.
const unfinishedLeast = 16

// begins records how much memory an unfinished long request needs, 0 when it is finished. Many
// clients may have one before they have proved anything. If all of them together need too much,
// the connection that has held the most for the longest time is closed, on the host for which
// that is true; its session stays. An input without a connection is not counted.
func (c *conn) begins(bytes int) {
	if c == nil {
		return
	}
	s := c.server
	budget := max(s.cfg.InputBudget, unfinishedLeast*int64(s.cfg.FrameBytesMax))
	for all := s.unfinished.hold(c, bytes); all > budget; {
		worst := s.unfinished.worst(s.monoMs())
		if worst == nil {
			return // they have been finished meanwhile
		}
		all = s.unfinished.hold(worst, 0)
		s.refused(refusedBegun, worst.remote)
		worst.shut()
	}
}

// readInto waits until something has arrived; no bytes means the end.
func (in *input) readInto(b []byte) (n int, err error) {
	if in.raw == nil {
		return in.socket.Read(b)
	}
	waitErr := in.raw.Read(func(fd uintptr) bool {
		var again bool
		n, again, err = readSocket(fd, b)
		return !again
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// pending returns a scratch with a frame that arrived completely after the handshake, or with
// the length of an invalid one.
func (in *input) pending() *scratch {
	if len(in.partial) < wire.PrefixBytes {
		return nil
	}
	n, err := wire.FrameLength(in.partial, in.frameMax)
	if err == nil && len(in.partial) < wire.PrefixBytes+n {
		return nil
	}
	w := in.take()
	in.rest = w.buffer[:len(in.partial)]
	return w
}

// take returns a scratch that begins with a copy of the kept bytes and has space after them.
// The space for a long frame grows with what has really arrived.
func (in *input) take() *scratch {
	w := scratches.Get().(*scratch)
	if need := 2 * len(in.partial); need > len(w.buffer) {
		w.buffer = make([]byte, need+inputBytes)
	}
	copy(w.buffer, in.partial)
	return w
}

// tryRead is called when the socket may have input; false means to wait for more.
func (in *input) tryRead(fd uintptr) bool {
	w := in.take()
	space := w.buffer[len(in.partial):]
	n, again, err := readSocket(fd, space[:min(len(space), in.most)])
	if again {
		scratches.Put(w)
		return false
	}
	in.w, in.n, in.err = w, n, err
	return true
}

// readAside reads from a socket that cannot be polled into the connection's own memory, so that
// a waiting connection holds no scratch. The memory grows with what arrives at once.
func (in *input) readAside() {
	in.aside = min(max(in.aside, asideMin), in.most, inputBytes/2)
	kept := len(in.partial)
	in.partial = slices.Grow(in.partial, in.aside)
	n, err := in.socket.Read(in.partial[kept : kept+in.aside])
	in.partial = in.partial[:kept+max(n, 0)]
	if n == in.aside {
		in.aside *= 4
	} else if n < in.aside/4 {
		in.aside /= 4
	}
	if n > 0 {
		in.w = in.take()
		in.partial, in.n, err = in.partial[:kept], n, nil
	}
	in.err = err
}

// asideMin is the memory of an idle connection that cannot be polled, for its next read.
const asideMin = 512

// keep stores what was not handled until more arrives.
func (in *input) keep() {
	in.partial = append(in.partial[:0], in.rest...)
	if len(in.partial) == 0 && cap(in.partial) > 1024 {
		in.partial = nil
	}
	in.rest = nil
}

// drain reads and discards until the client closes, so that closing our side does not destroy
// what the client has not read yet.
func (in *input) drain() {
	io.Copy(io.Discard, in.socket)
}
