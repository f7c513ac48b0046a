package clientsession

import (
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// A round tries every server once, in random order, at addresses that are looked up again.
// Within a round the next server is tried at once. Between rounds there is a pause with
// jitter, which doubles from round to round.

func (m *Machine) pausingTick(e *Event) {
	if m.nowMs >= m.wakeMs {
		m.startRound(e)
	}
}

func (m *Machine) startRound(*Event) {
	m.phase = resolving
	m.emit(Effect{Kind: Resolve})
}

// pause waits before the next round. The pause is random, between half of the current
// backoff and all of it. After a connection that had lasted it may be as short as 0, so
// that the clients of a restarted server do not all arrive at the same moment.
func (m *Machine) pause(lasted bool) {
	m.phase = pausing
	longest := min(m.config.BackoffMaxMs, max(m.timeoutMs/4, 1))
	backoff := m.config.BackoffMinMs
	for range min(m.rounds, 20) {
		backoff *= 2
	}
	backoff = max(min(backoff, longest), 1)
	m.rounds++
	if lasted {
		m.wakeMs = m.nowMs + m.random.below(backoff)
		return
	}
	m.wakeMs = m.nowMs + backoff/2 + m.random.below(backoff/2+1)
}

func (m *Machine) resolvingResolved(e *Event) {
	if len(e.Addresses) == 0 {
		m.pause(false)
		return
	}
	m.addresses = append(m.addresses[:0], e.Addresses...)
	m.random.shuffle(m.addresses)
	// Try the server that was just lost last: it is the most likely one to be down.
	if i := slices.Index(m.addresses, m.address); i >= 0 {
		last := len(m.addresses) - 1
		m.addresses[i], m.addresses[last] = m.addresses[last], m.addresses[i]
	}
	m.next = 0
	m.dialNext()
}

// dialNext dials the next server of the round, or ends the round.
func (m *Machine) dialNext() {
	if m.next >= len(m.addresses) {
		m.pause(false)
		return
	}
	m.address = m.addresses[m.next]
	m.next++
	m.conn++
	m.phase = dialling
	wait := m.connectMs()
	m.attemptMs = m.nowMs + wait
	m.emit(Effect{Kind: Dial, Conn: m.conn, Address: m.address, WaitMs: wait})
}

// connectMs returns how long one server may take to connect and greet, so that all of them can be
// tried within the timeout.
func (m *Machine) connectMs() int64 {
	if m.config.ConnectMs > 0 {
		return m.config.ConnectMs
	}
	wait := max(m.timeoutMs/int64(len(m.addresses)+1), connectMinMs)
	if m.config.LeaveSoon {
		wait = min(wait, max(m.timeoutMs/8, leaveConnectMs))
	}
	return wait
}

// drop drops the current connection: events that still come from it are stale.
func (m *Machine) drop() {
	m.emit(Effect{Kind: Drop, Conn: m.conn})
	m.conn++
}

func (m *Machine) attemptTick(*Event) {
	if m.nowMs >= m.attemptMs {
		m.drop()
		m.dialNext()
	}
}

func (m *Machine) attemptLost(*Event) {
	m.drop()
	m.dialNext()
}

func (m *Machine) attemptReseat(e *Event) {
	m.drop()
	m.startRound(e)
}

func (m *Machine) diallingDialed(*Event) {
	m.phase = greeting
	m.greetMs = m.nowMs
	hello := Greeting{TimeoutMs: m.config.TimeoutMs, ReadOnly: m.config.ReadOnly}
	// A session that only a read-only server knows cannot be moved: the next server starts
	// a new one.
	if m.seenWritable {
		hello.Session, hello.Password = m.session, m.password
	}
	m.emit(Effect{Kind: Greet, Conn: m.conn, Greeting: hello, LastZxid: m.LastZxid()})
}

// greetingRefused ends the session for good, as a refused credential does: other servers
// would refuse it too.
func (m *Machine) greetingRefused(*Event) { m.end(AuthFailed, zk.ErrAuthFailed) }

func (m *Machine) greetingGreeted(e *Event) {
	g := &e.Greeting
	refused := g.TimeoutMs <= 0 || g.Session == 0
	switch {
	case m.seenWritable && (refused || g.Session != m.session):
		// Some servers answer with another id instead of a refusal: the session, with its
		// ephemerals, is gone in any case.
		m.end(LostState, zk.ErrSessionExpired)
		return
	case refused:
		m.drop()
		m.dialNext()
		return
	}
	isNew := g.Session != m.session && !g.ReadOnly
	if g.Session != m.session || m.state == Connecting { // in a new session, the timeout that was asked for no longer counts
		m.timeoutMs = int64(g.TimeoutMs)
	}
	// A longer timeout lasts only until the leader changes: ZooKeeper's next leader uses
	// the one with which the session began.
	m.timeoutMs = min(m.timeoutMs, int64(g.TimeoutMs))
	m.session, m.password = g.Session, g.Password
	m.seenWritable = m.seenWritable || !g.ReadOnly
	m.proof.greeted(m.greetMs, m.timeoutMs, isNew)
	m.acked(m.greetMs)
	m.attach(g.ReadOnly)
}

// attach brings the new connection to the state of the last one: credentials first, then
// watches, then the calls that waited (clientsession-C5).
func (m *Machine) attach(readOnly bool) {
	m.phase = attached
	m.attachedMs, m.sentMs, m.seenMs = m.nowMs, m.nowMs, m.nowMs
	m.pings, m.authsSent, m.rearming = m.pings[:0], m.authsSent[:0], 0
	m.reseatMs = never
	m.probeGapMs = probeMinMs
	m.probeMs = m.nowMs + m.probeGapMs
	state := Connected
	if readOnly {
		state = ReadOnly
	}
	for _, one := range m.auths {
		m.sendAuth(one)
	}
	m.rearm()
	for call := m.waiting.pop(); call != nil; call = m.waiting.pop() {
		m.send(call)
	}
	m.enter(state, nil)
}

func (m *Machine) enter(state State, cause error) {
	if m.state == state {
		return
	}
	m.state = state
	m.emit(Effect{Kind: EnterState, State: state, Err: cause})
}
