//go:build linux

package floor

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// bufferBytes is the most that a client may send before it is answered, and so the longest
// request.
const bufferBytes = 1 << 20

// A Server serves clients, standalone or as the leader of its peers.
type Server struct {
	log      *Log
	peers    []net.Conn
	acks     chan uint64 // number of batches that peers have synced
	batches  uint64      // number of batches written; used by the committer
	sessions atomic.Int64
	commits  chan *conn // clients with writes that must be synced

	mu    sync.RWMutex // guards the store: the committer writes, clients read
	store *store
}

// A conn is one client and its session. It belongs to its goroutine, except between its
// send on commits and its receive from done.
type conn struct {
	socket   net.Conn
	in       []byte
	from, to int    // the bytes that were not processed yet
	whole    int    // the end of the last whole request
	out      []byte // replies
	done     chan struct{}
}

// NewServer returns a server with a log. It leads the peers at the other ends of the
// connections.
func NewServer(log *Log, peers ...net.Conn) *Server {
	return &Server{log: log, peers: peers, store: newStore(), acks: make(chan uint64, 1<<10), commits: make(chan *conn, 1<<10)}
}

// Serve accepts clients from a listener. It returns when a sync or the listener fails;
// after that nothing is answered.
func (s *Server) Serve(listener net.Listener) error {
	failed := make(chan error, 2+len(s.peers))
	go func() { failed <- s.commit() }()
	for _, peer := range s.peers {
		go func() { failed <- receive(peer, s.acks) }()
	}
	go func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				failed <- err
				return
			}
			go s.serve(socket)
		}
	}()
	return <-failed
}

// serve serves one client until its connection ends.
func (s *Server) serve(socket net.Conn) {
	defer socket.Close()
	c := &conn{socket: socket, in: make([]byte, bufferBytes), done: make(chan struct{}, 1)}
	if s.handshake(c) != nil {
		return
	}
	for {
		written, err := c.read()
		if err != nil {
			return
		}
		c.out = c.out[:0]
		if written {
			s.commits <- c
			<-c.done
		} else {
			s.mu.RLock()
			c.answer(s.store, time.Time{})
			s.mu.RUnlock()
		}
		if _, err := socket.Write(c.out); err != nil {
			return
		}
	}
}

// handshake gives a client a session.
func (s *Server) handshake(c *conn) error {
	if _, err := c.read(); err != nil {
		return err
	}
	request, err := wire.DecodeConnectRequest(c.in[prefixBytes:c.whole])
	c.from = c.whole
	if err != nil {
		return err
	}
	_, err = c.socket.Write(wire.AppendConnectResponse(nil, &wire.ConnectResponse{TimeoutMs: request.TimeoutMs,
		Session: zk.SessionID(s.sessions.Add(1)), HasReadOnly: request.HasReadOnly}))
	return err
}

// read waits for a complete request and reads everything that has arrived. It reports
// whether it includes a write.
func (c *conn) read() (written bool, err error) {
	c.to = copy(c.in, c.in[c.from:c.to])
	c.from, c.whole = 0, 0
	for c.whole == 0 {
		n, err := c.socket.Read(c.in[c.to:])
		if err != nil {
			return false, err
		}
		c.to += n
		for request := first(c.in[:c.to]); request != nil; request = first(c.in[c.whole:c.to]) {
			written = written || writes(request)
			c.whole += len(request)
		}
		if c.whole == 0 && c.to == len(c.in) {
			return false, errors.New("floor: a request is longer than the buffer")
		}
	}
	return written, nil
}

// first returns the request at the beginning, nil if it is incomplete.
func first(b []byte) []byte {
	if len(b) < prefixBytes {
		return nil
	}
	end := prefixBytes + int(binary.BigEndian.Uint32(b))
	if end > len(b) {
		return nil
	}
	return b[:end]
}

// appendWrites appends the writes among the requests that have arrived and were not
// processed yet.
func (c *conn) appendWrites(record []byte) []byte {
	for at := c.from; at < c.whole; {
		request := first(c.in[at:])
		if writes(request) {
			record = append(record, request...)
		}
		at += len(request)
	}
	return record
}

// answer processes the requests that have arrived, in order.
func (c *conn) answer(store *store, now time.Time) {
	for c.from < c.whole {
		request := first(c.in[c.from:])
		c.out = store.answer(c.out, request, now)
		c.from += len(request)
	}
}

// commit syncs the writes of clients: everything that arrived while the disk was busy
// shares the next sync (floor-F1). The requests that a client has sent together are
// processed together, so its reads see exactly its writes that came before them.
func (s *Server) commit() error {
	var batch []*conn
	var record []byte
	for c := range s.commits {
		batch = append(batch[:0], c)
		for range len(s.commits) {
			batch = append(batch, <-s.commits)
		}
		record = beginRecord(record[:0])
		for _, c := range batch {
			record = c.appendWrites(record)
		}
		endRecord(record)
		if err := s.replicate(record); err != nil {
			return err
		}
		now := time.Now()
		s.mu.Lock()
		for _, c := range batch {
			c.answer(s.store, now)
		}
		s.mu.Unlock()
		for _, c := range batch {
			c.done <- struct{}{}
		}
	}
	return io.EOF
}

// replicate returns when a record is on the disks of a majority: on this server's, which
// writes while the peers write, and on enough peers'. A peer that stalls also stalls the
// leader once the buffer of its socket is full; what other servers do about that costs
// nothing as long as it does not happen.
func (s *Server) replicate(record []byte) error {
	s.batches++
	for _, peer := range s.peers {
		if _, err := peer.Write(record); err != nil {
			return err
		}
	}
	if err := s.log.append(record); err != nil {
		return err
	}
	for missing := (len(s.peers) + 1) / 2; missing > 0; {
		if batch := <-s.acks; batch == s.batches {
			missing--
		}
	}
	return nil
}
