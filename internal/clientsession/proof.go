package clientsession

import "github.com/conclave-project/conclave/zk"

// proof works out until when the servers keep the session, whatever happens to
// them and to this client (clientsession-C7).
//
// That a server answers proves nothing: a follower that is partitioned from its
// leader goes on answering pings and reads, while the others expire the
// session. A write that was decided does prove something. The leader that
// decided it counts from its own requests or, for the client of a follower,
// from the heartbeats that the follower passes on when the leader pings it,
// every half tick, in order with the writes that it forwards. So the leader had
// been told by then of every sign that was half a tick old:
//
//	sign      half a tick       write          known of the session
//	-----|--------------------|--|-----------> sign + timeout
//	   sent, answered            sent, answered
//
// Half a tick is at most a quarter of the timeout, which is two ticks at least. (A
// leader of this program takes the write itself for a heartbeat. ZooKeeper's does
// not, so the client does not rest on it.)
// The greeting is told to the leader at once.
type proof struct {
	signs   []sign // of this connection, oldest first
	untilMs int64
	known   bool
	// timeoutMs is what was negotiated last.
	timeoutMs int64
	// decidedMs is when the newest write was sent that was decided.
	decidedMs int64
}

// sign is a request that a server has answered.
type sign struct{ sentMs, answeredMs int64 }

const (
	tickParts = 4  // half a tick is at most this part of the timeout
	signParts = 16 // signs that are closer together than this part are one
	signsMax  = 2 * signParts
)

// greeted begins with a new connection. A session that is new was decided by a
// quorum just now.
func (p *proof) greeted(sentMs, timeoutMs int64, isNew bool) {
	if timeoutMs < p.timeoutMs {
		// From now on the servers wait no longer than this.
		p.untilMs = min(p.untilMs, sentMs+timeoutMs)
	}
	p.timeoutMs = timeoutMs
	p.signs = append(p.signs[:0], sign{sentMs, sentMs - timeoutMs})
	if isNew {
		p.prove(sentMs, timeoutMs)
	}
}

// answered notes a heartbeat.
func (p *proof) answered(sentMs, nowMs, timeoutMs int64) {
	if last := len(p.signs) - 1; last >= 0 && sentMs < p.signs[last].sentMs+timeoutMs/signParts {
		return
	}
	if len(p.signs) == signsMax {
		p.signs = append(p.signs[:0], p.signs[1:]...)
	}
	p.signs = append(p.signs, sign{sentMs, nowMs})
}

// decided notes that a quorum has decided a write.
func (p *proof) decided(sentMs, timeoutMs int64) {
	p.decidedMs = max(p.decidedMs, sentMs)
	for i := len(p.signs) - 1; i >= 0; i-- {
		if s := p.signs[i]; s.answeredMs <= sentMs-timeoutMs/tickParts {
			p.prove(s.sentMs, timeoutMs)
			return
		}
	}
}

func (p *proof) prove(sentMs, timeoutMs int64) {
	p.untilMs, p.known = max(p.untilMs, sentMs+timeoutMs), true
}

// provedBy reports whether a successful reply to op says that a quorum has
// decided it. A multi that failed has such a reply, too: its failure is decided.
func provedBy(op zk.Op) bool { return op.IsWrite() && op != zk.OpCloseSession }
