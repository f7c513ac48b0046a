package server

import (
	"time"

	"github.com/conclave-project/conclave/internal/replica"
)

// oracleAsks is how often in a tick the oracle is asked.
const oracleAsks = 4

// askOracle asks whether this server may go on without the other one, until the server ends.
// An oracle that does not answer within a tick permits nothing, until it answers.
func (p *peers) askOracle() {
	s, permits := p.server, false
	take := func(said bool) {
		if said != permits {
			permits = said
			s.cfg.Logger.Warn("the oracle permits another thing than before", "alone", permits)
			s.inbox.put(replica.Event{Kind: replica.EventOracle, OK: permits})
		}
	}
	for again := true; again; again = s.pause(max(s.cfg.TickTime/oracleAsks, time.Millisecond)) {
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
