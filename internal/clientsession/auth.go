package clientsession

import (
	"bytes"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// Credentials belong to the connection, so each one is kept and sent again on every new
// connection. A call for a credential survives lost connections: the first answer completes
// it. A credential that no server has accepted is dropped with the last call that waits for
// it.

// credential is a credential that is kept for all connections.
type credential struct {
	request  zk.Request
	calls    []*Call // they wait for the first answer
	sent     bool    // on this connection or an earlier one
	accepted bool
}

// keepAuth remembers a credential. It returns nil if there is nothing to send because the
// credential is known: it is accepted, or its answer is still to come.
func (m *Machine) keepAuth(call *Call) *credential {
	call.stage = stageWaiting
	for _, known := range m.auths {
		if known.request.Scheme != call.Request.Scheme || !bytes.Equal(known.request.Data, call.Request.Data) {
			continue
		}
		if known.calls = append(known.calls, call); known.accepted {
			m.acceptedAuth(known)
		}
		return nil
	}
	one := &credential{request: call.Request, calls: []*Call{call}}
	one.request.Xid = zk.XidAuth
	m.auths = append(m.auths, one)
	return one
}

func (m *Machine) sendAuth(one *credential) {
	one.sent = true
	m.authsSent = append(m.authsSent, one)
	m.transmit(&one.request)
}

// cancelAuth ends a call for a credential. The credential is kept while its answer is still
// to come, because a server may accept it.
func (m *Machine) cancelAuth(call *Call) {
	for _, one := range m.auths {
		if i := slices.Index(one.calls, call); i >= 0 {
			one.calls = slices.Delete(one.calls, i, i+1)
			m.complete(call, nil, one.outcome())
		}
	}
	m.dropAuths()
}

// outcome returns what is known about a credential without an answer.
func (one *credential) outcome() Outcome {
	if one.sent {
		return Unknown
	}
	return NotApplied
}

// dropAuths removes the credentials that no call waits for and no server has accepted.
func (m *Machine) dropAuths() {
	m.auths = slices.DeleteFunc(m.auths, func(one *credential) bool {
		return len(one.calls) == 0 && !one.accepted && !slices.Contains(m.authsSent, one)
	})
}

// requeueAuths lets unanswered credentials wait for the next connection.
func (m *Machine) requeueAuths() {
	m.authsSent = m.authsSent[:0]
	m.dropAuths()
}

// repliedAuth handles the answers in order. A refused credential ends the use of the
// session, as in ZooKeeper's own clients: the server closes every connection on which the
// credential is shown.
func (m *Machine) repliedAuth(e *Event) {
	if len(m.authsSent) == 0 {
		if e.Code != zk.OK {
			m.end(AuthFailed, zk.ErrAuthFailed)
		}
		return
	}
	one := m.authsSent[0]
	m.authsSent = append(m.authsSent[:0], m.authsSent[1:]...)
	if e.Code != zk.OK {
		one.sent = false // the server says so
		m.end(AuthFailed, zk.ErrAuthFailed)
		return
	}
	m.acceptedAuth(one)
}

// acceptedAuth ends the calls for a credential that a server has accepted.
func (m *Machine) acceptedAuth(one *credential) {
	one.accepted = true
	for _, call := range one.calls {
		call.stage = stageDone
		if call.Owner != nil {
			m.emit(Effect{Kind: Complete, Call: call, Replied: true, Outcome: Applied})
		}
	}
	one.calls = nil
}

// failAuths ends the calls whose credential was never answered.
func (m *Machine) failAuths(err error) {
	for _, one := range m.auths {
		for _, call := range one.calls {
			m.complete(call, err, one.outcome())
		}
	}
	m.auths, m.authsSent = nil, nil
}
