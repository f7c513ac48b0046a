package clientsession

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// closeUnattached ends a session without a server that could be told. It lives on at the
// servers until it expires.
func (m *Machine) closeUnattached(e *Event) {
	if m.session == 0 {
		m.complete(e.Call, nil, Applied)
	} else {
		m.complete(e.Call, zk.ErrConnectionLoss, NotApplied)
	}
	m.end(Closed, zk.ErrClosing)
}

// attachedClose sends the last request. Requests sent before it are answered first; later
// ones are refused.
func (m *Machine) attachedClose(e *Event) {
	m.send(e.Call)
	m.phase = closing
}

func (m *Machine) closingTick(*Event) {
	if m.nowMs-m.seenMs >= m.closeTimeoutMs() {
		m.closeUnanswered(errSilent)
	}
}

// closingLost handles the loss of a server before it has answered closeSession.
func (m *Machine) closingLost(e *Event) { m.closeUnanswered(e.Cause) }

// closeUnanswered ends a session whose last connection was lost. Its last calls fail
// because of that; the session has ended because it was closed.
func (m *Machine) closeUnanswered(cause error) {
	m.failAll(lossOf(cause))
	m.end(Closed, zk.ErrClosing)
}

func (m *Machine) detach(*Event) { m.end(Closed, zk.ErrClosing) }

// end ends all calls, watches and attempts to connect.
func (m *Machine) end(state State, err error) {
	invariant.Check(state.Final() && m.phase != ended, "a session ends once, in a final state")
	switch m.phase {
	case dialling, greeting, attached, closing:
		m.drop()
	}
	m.phase = ended
	m.failAll(err)
	m.failAuths(err)
	m.registry.each(func(w *Watch) {
		w.registered = false
		m.emit(Effect{Kind: EndWatch, Watch: w, Err: err})
	})
	m.registry = newRegistry()
	m.enter(state, err)
}
