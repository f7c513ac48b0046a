package clientsession

import (
	"bytes"

	"github.com/conclave-project/conclave/zk"
)

// Credentials belong to the connection, so each is kept and sent again on every
// new one. A call for a credential outlives lost connections: it is completed
// by the first answer.

// keepAuth remembers a credential and reports whether it is new. One that was
// accepted before is not sent twice on a connection.
func (m *Machine) keepAuth(call *Call) bool {
	call.Request.Xid = zk.XidAuth
	for _, other := range m.auths {
		if other.accepted && other.Request.Scheme == call.Request.Scheme &&
			bytes.Equal(other.Request.Data, call.Request.Data) {
			call.stage = stageDone
			if call.Owner != nil {
				m.emit(Effect{Kind: Complete, Call: call, Replied: true, Outcome: Applied})
			}
			return false
		}
	}
	m.auths = append(m.auths, call)
	return true
}

func (m *Machine) sendAuth(call *Call) {
	m.authsSent = append(m.authsSent, call)
	if call.stage != stageDone && call.stage != stageGone {
		call.stage = stagePending
	}
	m.transmit(&call.Request)
}

// requeueAuths makes unanswered credentials wait for the next connection.
func (m *Machine) requeueAuths() {
	for _, call := range m.authsSent {
		if call.stage == stagePending {
			call.stage = stageWaiting
		}
	}
	m.authsSent = m.authsSent[:0]
}

// repliedAuth takes the answers in order. A refused credential ends the
// session's use, as in ZooKeeper's own clients: the server closes every
// connection on which it is shown.
func (m *Machine) repliedAuth(e *Event) {
	if e.Code != zk.OK {
		m.end(AuthFailed, zk.ErrAuthFailed)
		return
	}
	if len(m.authsSent) == 0 {
		return
	}
	call := m.authsSent[0]
	m.authsSent = append(m.authsSent[:0], m.authsSent[1:]...)
	waited := call.stage == stagePending
	call.stage, call.accepted = stageDone, true
	if waited && call.Owner != nil {
		m.emit(Effect{Kind: Complete, Call: call, Replied: true, Outcome: Applied})
	}
}

// failAuths ends the calls whose credential was never answered.
func (m *Machine) failAuths(err error) {
	for _, call := range m.auths {
		m.complete(call, err, NotApplied)
	}
	m.auths, m.authsSent = nil, nil
}
