package server

import (
	"time"

	"github.com/conclave-project/conclave/internal/replica"
)

// oracleAsks is how often per tick the oracle is asked.
const oracleAsks = 4

// askOracle asks whether this server may go on without the other one, until the server ends. If
// the oracle does not answer within a tick, nothing is permitted until it answers: an earlier
// permission has ended by then, even if this process was paused meanwhile.
func (p *peers) askOracle() {
	s, permits := p.server, false
	var askedMs int64
	take := func(said bool) {
		until := int64(0)
		if said {
			until = askedMs + replica.PermissionMs(s.cfg.TickTime.Milliseconds())
		}
		s.permittedMs.Store(until)
		if said != permits {
			permits = said
			s.cfg.Logger.Warn("the answer of the oracle has changed", "alone", permits)
			s.inbox.put(replica.Event{Kind: replica.EventTick}) // the step then checks the permission
		}
	}
	for again := true; again; again = s.pause(max(s.cfg.TickTime/oracleAsks, time.Millisecond)) {
		askedMs = s.monoMs()
		answer := make(chan bool, 1)
		go func() { answer <- s.cfg.Oracle() }()
		silence := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(s.cfg.TickTime))
		select {
		case said := <-answer:
			take(said)
		case <-silence.C():
			take(false)
			select {
			case said := <-answer:
				take(said)
			case <-s.done.Done():
			}
		case <-s.done.Done():
		}
		silence.Stop()
	}
}
