package clientsession

import "github.com/conclave-project/conclave/zk"

// proof computes until when the servers keep the session, whatever happens to them and to
// this client (clientsession-C7).
//
// An answer of a server proves nothing: a follower that is partitioned from its leader
// still answers pings and reads, while the others expire the session. A decided write does
// prove something. The leader that decided it counts from its own requests or, for the
// client of a follower, from the heartbeats that the follower passes on when the leader
// pings it. That happens every half tick, and in order with the writes that the follower
// forwards. So at that moment the leader knew of every answered request ("sign" below) that
// was at least half a tick old:
//
//	sign      half a tick       write          known of the session
//	-----|--------------------|--|-----------> sign + timeout
//	   sent, answered            sent, answered
//
// Half a tick is at most a quarter of the timeout, because the timeout is at least two
// ticks. (A leader of Conclave takes the write itself for a heartbeat. ZooKeeper's does
// not, so the client does not rely on it.) The leader learns of the greeting at once.
type proof struct {
	signs   []sign // of this connection, oldest first
	untilMs int64
	known   bool
	// timeoutMs is the timeout that was negotiated last.
	timeoutMs int64
	// decidedMs is when the latest decided write was sent.
	decidedMs int64
}

// sign is a request that a server has answered.
type sign struct{ sentMs, answeredMs int64 }

const (
	tickParts = 4  // half a tick is at most this part of the timeout
	signParts = 16 // signs that are closer together than this part count as one
	signsMax  = 2 * signParts
)

// greeted begins a new connection. If the session is new, a quorum has just decided it.
func (p *proof) greeted(sentMs, timeoutMs int64, isNew bool) {
	if timeoutMs < p.timeoutMs {
		// From now on the servers wait for this timeout at most.
		p.untilMs = min(p.untilMs, sentMs+timeoutMs)
	}
	p.timeoutMs = timeoutMs
	p.signs = append(p.signs[:0], sign{sentMs, sentMs - timeoutMs})
	if isNew {
		p.prove(sentMs, timeoutMs)
	}
}

// answered records an answered request.
func (p *proof) answered(sentMs, nowMs, timeoutMs int64) {
	if last := len(p.signs) - 1; last >= 0 && sentMs < p.signs[last].sentMs+timeoutMs/signParts {
		return
	}
	if len(p.signs) == signsMax {
		p.signs = append(p.signs[:0], p.signs[1:]...)
	}
	p.signs = append(p.signs, sign{sentMs, nowMs})
}

// decided records that a quorum has decided a write.
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

// provedBy reports whether a successful reply to op means that a quorum has decided it. A
// failed multi also has such a reply: its failure was decided.
func provedBy(op zk.Op) bool { return op.IsWrite() && op != zk.OpCloseSession }
