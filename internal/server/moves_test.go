package server

import (
	"bytes"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
)

// The loop of a server that reads a snapshot is notified while bytes move, and not too often.
func TestSnapshotThatMovesIsNoted(t *testing.T) {
	now := clock.NewManual(0)
	s := &Server{cfg: Config{ClientConfig: ClientConfig{TickTime: 10 * time.Millisecond}, Clock: now}}
	s.inbox.init(s.monoMs)
	in := &incoming{in: bytes.NewReader(make([]byte, 1<<20)), server: s, link: 8}
	found, steps := 0, 0
	for ; found < 2; steps++ {
		now.Advance(time.Millisecond)
		_, _ = in.Read(make([]byte, 1))
		for _, e := range s.inbox.take().events {
			if e.Kind != replica.EventMoves || e.Link != 8 {
				t.Fatalf("an event of the kind %d on the link %d", e.Kind, e.Link)
			}
			found++
		}
	}
	if steps != 10 { // at least half a tick passes between two notes
		t.Errorf("it is noted twice within %d ms", steps)
	}
}
