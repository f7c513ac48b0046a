package server

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
)

// The loop of a server that sends a snapshot, or reads one, is notified while bytes move,
// and not too often.
func TestSnapshotThatMovesIsNoted(t *testing.T) {
	now := clock.NewManual(0)
	s := &Server{cfg: Config{ClientConfig: ClientConfig{TickTime: 10 * time.Millisecond}, Clock: now}}
	s.inbox.init(s.monoMs)
	out := &outgoing{io.Discard, moves{server: s, link: 7}}
	in := &incoming{bytes.NewReader(make([]byte, 1<<20)), moves{server: s, link: 8}}
	found := map[uint64]int{}
	steps := 0
	for ; found[7] < 2 || found[8] < 2; steps++ {
		now.Advance(time.Millisecond)
		_, _ = out.Write([]byte{1})
		_, _ = in.Read(make([]byte, 1))
		for _, e := range s.inbox.take().events {
			if e.Kind != replica.EventMoves {
				t.Fatalf("an event of the kind %d", e.Kind)
			}
			found[uint64(e.Link)]++
		}
	}
	if steps != 10 { // half a tick is between two notes
		t.Errorf("it is noted twice within %d ms", steps)
	}
}
