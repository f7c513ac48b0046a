package server

import (
	"io"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// incoming is a snapshot that is read from a link. Now and then it notifies the loop that it
// moves: it may take much longer than a leader may be silent. Of what is sent,
// peernet tells (peers.Moves).
type incoming struct {
	in     io.Reader
	server *Server
	link   zab.LinkID
	atMs   int64 // when the loop was notified last
}

func (i *incoming) Read(b []byte) (int, error) {
	n, err := i.in.Read(b)
	nowMs := i.server.monoMs()
	if n > 0 && nowMs-i.atMs >= i.server.cfg.TickTime.Milliseconds()/2 {
		i.atMs = nowMs
		i.server.inbox.put(replica.Event{Kind: replica.EventMoves, Link: i.link})
	}
	return n, err
}
