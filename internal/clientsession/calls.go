package clientsession

import (
	"fmt"
	"math"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// queueCall keeps a call until there is a connection.
func (m *Machine) queueCall(e *Event) {
	if e.Call.Request.Op == zk.OpAuth {
		m.keepAuth(e.Call)
		return
	}
	e.Call.stage = stageWaiting
	m.waiting.push(e.Call)
}

func (m *Machine) sendCall(e *Event) {
	if e.Call.Request.Op == zk.OpAuth {
		if one := m.keepAuth(e.Call); one != nil {
			m.sendAuth(one)
		}
		return
	}
	m.send(e.Call)
}

// send numbers the call and queues it as pending.
func (m *Machine) send(call *Call) {
	invariant.Check(call.stage <= stageWaiting, "C1: a call is sent twice")
	if m.xid == math.MaxInt32 {
		m.xid = 0
	}
	m.xid++
	m.seq++
	call.Request.Xid = m.xid
	call.seq, call.sentMs, call.stage = m.seq, m.nowMs, stagePending
	m.pending.push(call)
	m.transmit(&call.Request)
}

func (m *Machine) transmit(r *zk.Request) {
	m.sentMs = m.nowMs
	m.emit(Effect{Kind: Send, Conn: m.conn, Request: r})
}

// flushed records that all calls sent so far may reach the server (clientsession-C3).
func (m *Machine) flushed(*Event) { m.flushedSeq = m.seq }

// refuse completes a call that was submitted too late.
func (m *Machine) refuse(e *Event) {
	err := error(zk.ErrClosing)
	switch m.state {
	case LostState:
		err = zk.ErrSessionExpired
	case AuthFailed:
		err = zk.ErrAuthFailed
	}
	m.complete(e.Call, err, NotApplied)
}

// complete ends a call that has no reply, once (clientsession-C1).
func (m *Machine) complete(call *Call, err error, outcome Outcome) {
	switch call.stage {
	case stageDone:
		return
	case stageGone:
		call.stage = stageDone
		return
	}
	call.stage = stageDone
	if call.Owner != nil {
		m.emit(Effect{Kind: Complete, Call: call, Err: err, Outcome: outcome})
	}
}

// outcome returns the outcome of a call that will not be answered (clientsession-C3).
func (m *Machine) outcome(call *Call) Outcome {
	if call.stage == stagePending && call.Request.Op.IsWrite() && call.seq <= m.flushedSeq {
		return Unknown
	}
	return NotApplied
}

// cancel ends a call that nobody waits for. If it was sent, it keeps its place in the
// order, and its reply is dropped when it comes.
func (m *Machine) cancel(e *Event) {
	call := e.Call
	switch call.stage {
	case stageWaiting:
		if call.Request.Op == zk.OpAuth {
			m.cancelAuth(call)
			return
		}
		m.waiting.remove(call)
		m.complete(call, nil, NotApplied)
	case stagePending:
		outcome := m.outcome(call)
		if op := call.Request.Op; op.IsWrite() || op == zk.OpRemoveWatches {
			outcome = Unknown // in the buffer, from where it may be sent
		}
		call.stage = stageGone
		m.emit(Effect{Kind: Complete, Call: call, Outcome: outcome})
	}
}

// failAll ends every call, sent and waiting (clientsession-C2).
func (m *Machine) failAll(err error) {
	first := len(m.effects)
	if call := m.pending.pop(); call != nil {
		m.complete(call, err, m.outcome(call))
	}
	for i := first; i < len(m.effects); i++ { // one at most
		m.effects[i].Oldest = true
	}
	for call := m.pending.pop(); call != nil; call = m.pending.pop() {
		m.complete(call, err, m.outcome(call))
	}
	for call := m.waiting.pop(); call != nil; call = m.waiting.pop() {
		m.complete(call, err, NotApplied)
	}
	invariant.Check(m.Backlog() == 0, "C2: a call outlives its connection")
}

// unwatchGone removes a persistent watch from the server that was set for a call that has
// ended.
func (m *Machine) unwatchGone(call *Call, code zk.Code) {
	if w := call.Watch; w != nil && !w.Kind.OneShot() && code == zk.OK {
		m.registry.add(w)
		m.unwatch(&Event{Watch: w})
	}
}

// replied handles the header of a reply to a ping, a credential or a setWatches, or else to
// the oldest call, because replies come in order. A reply that belongs to nothing is not
// trusted: its zxid would make changes count as seen that were not.
func (m *Machine) replied(e *Event) {
	m.seenMs = m.nowMs
	if !m.expects(e.Xid) {
		m.lose(fmt.Errorf("reply with xid %d is out of order", e.Xid))
		return
	}
	if e.Zxid > m.lastZxid {
		m.lastZxid = e.Zxid
	}
	switch e.Xid {
	case zk.XidPing:
		m.repliedPing()
	case zk.XidAuth:
		m.repliedAuth(e)
	case zk.XidSetWatches:
		m.repliedRearm(e)
	default:
		m.repliedCall(e)
	}
}

// expects reports whether a reply with this xid is possible now.
func (m *Machine) expects(xid zk.Xid) bool {
	switch xid {
	case zk.XidPing, zk.XidAuth, zk.XidSetWatches:
		return true
	}
	return m.pending.len() > 0 && m.pending.at(0).Request.Xid == xid
}

func (m *Machine) repliedPing() {
	if len(m.pings) > 0 {
		m.acked(m.pings[0])
		m.pings = append(m.pings[:0], m.pings[1:]...)
	}
}

func (m *Machine) repliedCall(e *Event) {
	call := m.pending.pop()
	if e.Code != zk.ErrSessionExpired {
		m.acked(call.sentMs)
	}
	if e.Code == zk.OK && provedBy(call.Request.Op) {
		m.proof.decided(call.sentMs, m.timeoutMs)
	}
	gone := call.stage == stageGone
	call.stage = stageDone
	m.disinherit(call, e.Code)
	m.concludeRemoval(call, e.Code)
	if gone {
		m.unwatchGone(call, e.Code)
		return
	}
	m.concludeWatches(call, e.Code)
	if call.Owner != nil {
		outcome := Applied
		if e.Code != zk.OK {
			outcome = NotApplied
		}
		m.emit(Effect{Kind: Complete, Call: call, Replied: true, Code: e.Code, Zxid: e.Zxid, Outcome: outcome})
	}
	if call.Request.Op == zk.OpCloseSession {
		m.end(Closed, zk.ErrClosing)
	}
}
