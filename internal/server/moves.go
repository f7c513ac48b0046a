package server

import (
	"io"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// incoming is a snapshot that is being read from a link. From time to time it notifies the loop
// of its progress, because it may take much longer than a leader may be silent. For snapshots
// that are sent, peernet does that (peers.Moves).
type incoming struct {
	in     io.Reader
	server *Server
	link   zab.LinkID
	atMs   int64 // when the loop was last notified
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
