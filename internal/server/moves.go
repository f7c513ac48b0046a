package server

import (
	"io"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// moves notifies the loop now and then that the snapshot on a link moves. It may take
// much longer than initLimit, and the other server says nothing meanwhile.
type moves struct {
	server *Server
	link   zab.LinkID
	atMs   int64 // when the loop was notified last
}

func (m *moves) note(bytes int) {
	nowMs := m.server.monoMs()
	if bytes > 0 && nowMs-m.atMs >= m.server.cfg.TickTime.Milliseconds()/2 {
		m.atMs = nowMs
		m.server.inbox.put(replica.Event{Kind: replica.EventMoves, Link: m.link})
	}
}

// outgoing is a snapshot that is sent.
type outgoing struct {
	out io.Writer
	moves
}

func (o *outgoing) Write(b []byte) (int, error) {
	n, err := o.out.Write(b)
	o.note(n)
	return n, err
}

// incoming is a snapshot that is read.
type incoming struct {
	in io.Reader
	moves
}

func (i *incoming) Read(b []byte) (int, error) {
	n, err := i.in.Read(b)
	i.note(n)
	return n, err
}
