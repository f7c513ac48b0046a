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

// input is the reading side of a connection. Between reads it keeps only the
// beginning of a frame that has not come whole.
type input struct {
	socket   net.Conn
	frameMax int             // jute.maxbuffer
	raw      syscall.RawConn // nil if the socket cannot be polled
	partial  []byte          // begun, but not whole
	*reading                 // nil while the connection is idle
}

// reading is what an input has while the connection has its goroutine.
type reading struct {
	of    *conn  // that counts what a long request takes; nil: nobody does
	rest  []byte // of the scratch buffer: still to be handled
	most  int    // of the next read
	aside int    // for the next read from a socket that cannot be polled
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

// begin is for a connection that has its goroutine again.
func (in *input) begin(c *conn) {
	if in.reading == nil {
		in.reading = &reading{of: c, poll: in.tryRead}
	}
}

// first reads the first frame of a connection into memory of its own. What
// comes after it stays for later.
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

// atEnd reports whether the client has closed the connection. Where that cannot be known
// without reading it is false.
func (in *input) atEnd() bool {
	if in.raw == nil {
		return false
	}
	ended := false
	_ = in.raw.Control(func(fd uintptr) { ended = socketEnded(fd) })
	return ended
}

// isEmpty reports whether nothing has come, on a socket that can be polled.
func (in *input) isEmpty() bool { return in.raw != nil && len(in.partial) == 0 }

// await waits until there is input, or the end, and needs next to nothing for it.
func (in *input) await() {
	if in.isEmpty() {
		_ = in.raw.Read(socketReady)
	}
}

// read waits for input, and returns a scratch whose rest holds up to most bytes of it, after
// what was kept. Only when something has come does it take a scratch.
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

// gather reads a long frame that has begun until it is whole, to where it is
// kept: to carry it into a scratch and back with every byte that comes would
// let a slow sender cost any amount of work.
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

// unfinishedLeast is how many of the longest requests may have begun, however long they may be.
const unfinishedLeast = 16

// begins notes how much memory a long request takes that has begun and not ended, 0 if it has.
// Many clients may have one, before they have proved anything. Where those of all take too much, the
// connection goes that has held most for longest, of the host that has: its session stays. Nobody
// counts for an input of no connection.
func (c *conn) begins(bytes int) {
	if c == nil {
		return
	}
	s := c.server
	budget := max(s.cfg.InputBudget, unfinishedLeast*int64(s.cfg.FrameBytesMax))
	for all := s.unfinished.hold(c, bytes); all > budget; {
		worst := s.unfinished.worst(s.monoMs())
		if worst == nil {
			return // they have ended meanwhile
		}
		all = s.unfinished.hold(worst, 0)
		s.refused(refusedBegun, worst.remote)
		worst.shut()
	}
}

// readInto waits until something has come; nothing is the end.
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

// pending returns a scratch with a frame that came whole after the handshake,
// or with the length of one that cannot be.
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

// take gets a scratch with space after the kept bytes, which it copies. The
// space for a long frame grows with what has really come.
func (in *input) take() *scratch {
	w := scratches.Get().(*scratch)
	if need := 2 * len(in.partial); need > len(w.buffer) {
		w.buffer = make([]byte, need+inputBytes)
	}
	copy(w.buffer, in.partial)
	return w
}

// tryRead is called when the socket may have input; false waits for more.
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

// readAside reads from a socket that cannot be polled into memory of the connection's
// own, so that one that waits holds no scratch. The memory grows with what comes at once.
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

// asideMin is what an idle connection that cannot be polled has for its next read.
const asideMin = 512

// keep stores what was not handled until more comes.
func (in *input) keep() {
	in.partial = append(in.partial[:0], in.rest...)
	if len(in.partial) == 0 && cap(in.partial) > 1024 {
		in.partial = nil
	}
	in.rest = nil
}

// drain reads and forgets until the client closes, so that closing our side
// does not destroy what it has not read yet.
func (in *input) drain() {
	io.Copy(io.Discard, in.socket)
}
