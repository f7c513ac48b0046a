package client

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// simPipe is one direction of a simulated connection: bytes arrive in order, late and
// in pieces, and at most its space ahead of the reader. When it is cut, any part of
// what is under way still arrives, or nothing does.
type simPipe struct {
	rng     *rand.Rand
	delayMs int
	space   int

	mu       sync.Mutex
	arrived  []byte
	way      []piece   // not yet arrived
	flying   int       // total length of way
	deaf     bool      // what arrives is lost, and nobody learns of it
	left     int       // bytes that still arrive after the pipe was cut
	closed   error     // for the writer
	ended    error     // for the reader, after it has read what arrived
	deadline time.Time // the reader's
	changed  chan struct{}
}

const simSpace = 32 << 10

func newSimPipe(rng *rand.Rand, delayMs int) *simPipe {
	return &simPipe{rng: rng, delayMs: delayMs, space: simSpace, changed: make(chan struct{})}
}

// tell wakes the waiters. The mutex is held.
func (p *simPipe) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// write puts b on its way, in pieces, as space permits.
func (p *simPipe) write(b []byte) (int, error) {
	written := 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for written < len(b) {
		if p.closed != nil {
			return written, p.closed
		}
		n := min(len(b)-written, p.space-len(p.arrived)-p.flying)
		if n <= 0 {
			changed := p.changed
			p.mu.Unlock()
			<-changed
			p.mu.Lock()
			continue
		}
		if n > 1 && p.rng.IntN(4) == 0 {
			n = 1 + p.rng.IntN(n)
		}
		p.fly(append([]byte(nil), b[written:written+n]...))
		written += n
	}
	return written, nil
}

// piece is a number of bytes on their way.
type piece struct {
	bytes []byte
	at    time.Time
}

// fly makes a piece arrive after a while, and after all pieces before it. The mutex
// is held.
func (p *simPipe) fly(b []byte) {
	at := time.Now().Add(time.Duration(p.rng.IntN(p.delayMs+1)) * time.Millisecond)
	if p.rng.IntN(50) == 0 {
		at = at.Add(time.Duration(p.rng.IntN(20*(p.delayMs+1))) * time.Millisecond)
	}
	if n := len(p.way); n > 0 && at.Before(p.way[n-1].at) {
		at = p.way[n-1].at
	}
	p.way, p.flying = append(p.way, piece{b, at}), p.flying+len(b)
	if wait := time.Until(at); wait > 0 {
		time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.land()
		})
		return
	}
	p.land()
}

// land moves what has arrived by now out of way. The mutex is held.
func (p *simPipe) land() {
	for len(p.way) > 0 && !time.Now().Before(p.way[0].at) {
		b := p.way[0].bytes
		p.way, p.flying = p.way[1:], p.flying-len(b)
		if p.closed != nil {
			b = b[:min(len(b), p.left)]
			p.left -= len(b)
		}
		if !p.deaf {
			p.arrived = append(p.arrived, b...)
		}
		if p.closed != nil && p.left == 0 && p.ended == nil {
			p.ended = p.closed
		}
	}
	p.tell()
}

// read returns what has arrived.
func (p *simPipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if n := copy(b, p.arrived); n > 0 || len(b) == 0 {
			p.arrived = p.arrived[n:]
			p.tell()
			return n, nil
		}
		if p.ended != nil {
			return 0, p.ended
		}
		if !p.deadline.IsZero() && !time.Now().Before(p.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		p.await()
	}
}

// await waits for a change, or for the deadline. The mutex is held before and after.
func (p *simPipe) await() {
	changed := p.changed
	var late <-chan time.Time
	if !p.deadline.IsZero() {
		timer := time.NewTimer(time.Until(p.deadline))
		defer timer.Stop()
		late = timer.C
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-late:
	}
}

// cut ends the pipe. The writer sees err at once; the reader sees it after what still
// arrives, which is everything under way, or a part of it that may end anywhere.
func (p *simPipe) cut(err error, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return
	}
	p.closed, p.left = err, p.flying
	if !all && p.flying > 0 {
		p.left = p.rng.IntN(p.flying + 1)
	}
	if p.left == 0 && p.ended == nil {
		p.ended = err
	}
	p.tell()
}

// shut ends the pipe on the reader's side, which then takes nothing any more.
func (p *simPipe) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.arrived, p.ended = true, nil, net.ErrClosed
	if p.closed == nil {
		p.closed, p.left = errSimReset, p.flying
	}
	p.tell()
}

var errSimReset = errors.New("connection reset by peer")

// simSocket is one end of a connection. Closing may take some time, as with TLS;
// until it is done, the socket takes bytes.
type simSocket struct {
	in, out   *simPipe
	closing   time.Duration
	abandoned bool // closing loses what is under way
	once      sync.Once
}

// simConnect returns both ends of a connection.
func simConnect(rng *rand.Rand, delayMs int) (near, far *simSocket) {
	there := newSimPipe(rand.New(rand.NewPCG(rng.Uint64(), 1)), delayMs)
	back := newSimPipe(rand.New(rand.NewPCG(rng.Uint64(), 2)), delayMs)
	near, far = &simSocket{in: back, out: there}, &simSocket{in: there, out: back}
	near.abandoned = rng.IntN(4) == 0
	if rng.IntN(2) == 0 {
		near.closing = time.Duration(rng.IntN(300)) * time.Millisecond
	}
	return near, far
}

// reset breaks both directions, each somewhere within what is under way.
func (s *simSocket) reset() {
	s.in.cut(errSimReset, false)
	s.out.cut(errSimReset, false)
}

// vanish silently loses everything that is sent from now on, in one direction or
// both.
func (s *simSocket) vanish(in, out bool) {
	for p, chosen := range map[*simPipe]bool{s.in: in, s.out: out} {
		p.mu.Lock()
		p.deaf = p.deaf || chosen
		p.mu.Unlock()
	}
}

func (s *simSocket) Read(b []byte) (int, error)  { return s.in.read(b) }
func (s *simSocket) Write(b []byte) (int, error) { return s.out.write(b) }

func (s *simSocket) Close() error {
	s.once.Do(func() {
		time.Sleep(s.closing)
		s.out.cut(io.EOF, !s.abandoned)
		s.in.shut()
	})
	return nil
}

func (s *simSocket) SetReadDeadline(t time.Time) error {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.in.deadline = t
	s.in.tell()
	return nil
}

func (s *simSocket) SetDeadline(t time.Time) error      { return s.SetReadDeadline(t) }
func (s *simSocket) SetWriteDeadline(t time.Time) error { return nil }
func (s *simSocket) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (s *simSocket) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
