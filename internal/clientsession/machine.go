package clientsession

import (
	"math"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// Config is what a session is opened with.
type Config struct {
	TimeoutMs int32        // session timeout to ask for; the server may change it
	Session   zk.SessionID // to attach to again; 0 for a new session
	Password  zk.Password  // of Session
	LastZxid  zk.Zxid      // last zxid seen in Session; 0 if not known
	ReadOnly  bool         // a server that is partitioned from its quorum will do
	Seed      uint64       // of the order of servers and of the backoff

	BackoffMinMs  int64 // first pause after all servers were tried; 0 is 100
	BackoffMaxMs  int64 // longest pause; 0 is 5000; never above a quarter of the timeout
	ConnectMs     int64 // for one server to connect and greet; 0 is timeout / (servers + 1)
	RearmBytesMax int   // size of one setWatches request; 0 is 128 KiB
}

const (
	backoffMinMs  = 100
	backoffMaxMs  = 5000
	connectMinMs  = 200
	rearmBytesMax = 128 << 10
	never         = math.MaxInt64
)

// phase is where the machine is with its connection.
type phase uint8

const (
	pausing   phase = iota // until wakeMs, then a new round begins
	resolving              // the addresses for a round are being looked up
	dialling
	greeting // connection open, handshake sent
	attached
	closing // closeSession sent
	ended
	phaseCount
)

// Machine is one session, from the client's side. It is not safe for
// concurrent use. What always holds is stated in the package comment.
type Machine struct {
	config  Config
	phase   phase
	state   State
	nowMs   int64
	random  random
	effects []Effect // of the current step

	session      zk.SessionID
	password     zk.Password
	timeoutMs    int64 // the shortest that was negotiated; before that, asked for
	lastZxid     zk.Zxid
	ackedMs      int64 // when the last acknowledged request was sent, or the session resumed
	proof        proof // until when the servers keep the session
	seenWritable bool  // the session exists on the quorum, not just on a read-only server

	conn       int64 // number of the current connection
	address    string
	attemptMs  int64 // dialling, greeting: when to give this server up
	greetMs    int64 // when the handshake was sent
	attachedMs int64
	sentMs     int64 // when anything was last sent
	seenMs     int64 // when anything was last received
	pings      []int64
	rearming   int     // setWatches requests not answered yet
	eventZxid  zk.Zxid // of the newest event of a watch
	sinceZxid  zk.Zxid // up to which every one-shot watch has been told of changes
	probeMs    int64
	probeGapMs int64
	reseatMs   int64 // attached: when to look the list of servers up again

	addresses []string
	next      int // index of the server to try next
	rounds    int // failed in a row
	wakeMs    int64

	waiting    queue // not sent
	pending    queue // sent, in order
	seq        int64 // of the last call sent
	flushedSeq int64 // of the last call handed to the socket
	xid        zk.Xid
	auths      []*credential
	authsSent  []*credential // not answered yet on this connection
	registry   registry
}

// New returns the machine of one session. It does nothing before the first
// Tick.
func New(config Config, nowMs int64) *Machine {
	if config.BackoffMinMs <= 0 {
		config.BackoffMinMs = backoffMinMs
	}
	if config.BackoffMaxMs <= 0 {
		config.BackoffMaxMs = backoffMaxMs
	}
	if config.RearmBytesMax <= 0 {
		config.RearmBytesMax = rearmBytesMax
	}
	return &Machine{
		config: config, nowMs: nowMs, random: random(config.Seed), wakeMs: nowMs,
		session: config.Session, password: config.Password, lastZxid: config.LastZxid,
		timeoutMs: int64(config.TimeoutMs), ackedMs: nowMs, seenWritable: config.Session != 0,
		registry: newRegistry(),
	}
}

// handlers says what is done about an event in a phase; nil is nothing.
// TestEveryEmptyCellIsMeantToBeEmpty lists the empty ones with their reasons.
var handlers = [phaseCount][kindCount]func(*Machine, *Event){
	pausing: {
		Tick: (*Machine).pausingTick, Submit: (*Machine).queueCall, Cancel: (*Machine).cancel,
		Unwatch: (*Machine).unwatch, Reseat: (*Machine).startRound, Close: (*Machine).closeUnattached,
		Detach: (*Machine).detach,
	},
	resolving: {
		Resolved: (*Machine).resolvingResolved, Submit: (*Machine).queueCall, Cancel: (*Machine).cancel,
		Unwatch: (*Machine).unwatch, Close: (*Machine).closeUnattached, Detach: (*Machine).detach,
	},
	dialling: {
		Tick: (*Machine).attemptTick, Dialed: (*Machine).diallingDialed, Lost: (*Machine).attemptLost,
		Submit: (*Machine).queueCall, Cancel: (*Machine).cancel, Unwatch: (*Machine).unwatch,
		Reseat: (*Machine).attemptReseat, Close: (*Machine).closeUnattached, Detach: (*Machine).detach,
	},
	greeting: {
		Tick: (*Machine).attemptTick, Greeted: (*Machine).greetingGreeted, Lost: (*Machine).attemptLost,
		Refused: (*Machine).greetingRefused,
		Submit:  (*Machine).queueCall, Cancel: (*Machine).cancel, Unwatch: (*Machine).unwatch,
		Reseat: (*Machine).attemptReseat, Close: (*Machine).closeUnattached, Detach: (*Machine).detach,
	},
	attached: {
		Tick: (*Machine).attachedTick, Resolved: (*Machine).attachedResolved,
		Replied: (*Machine).replied, Notified: (*Machine).notified, Flushed: (*Machine).flushed,
		Lost: (*Machine).attachedLost, Probed: (*Machine).attachedProbed, Submit: (*Machine).sendCall,
		Cancel: (*Machine).cancel, Unwatch: (*Machine).unwatch, Reseat: (*Machine).attachedReseat,
		Close: (*Machine).attachedClose, Detach: (*Machine).detach,
	},
	closing: {
		Tick: (*Machine).closingTick, Replied: (*Machine).replied, Notified: (*Machine).notified,
		Flushed: (*Machine).flushed, Lost: (*Machine).closingLost, Submit: (*Machine).refuse,
		Cancel: (*Machine).cancel, Unwatch: (*Machine).forget, Close: (*Machine).refuse,
		Detach: (*Machine).detach,
	},
	ended: {Submit: (*Machine).refuse, Close: (*Machine).refuse},
}

// Step takes one event and returns what to do about it, in order. nowMs is monotonic, in
// milliseconds since any start; an earlier one than the last means that no time has
// passed. The effects are valid until the next step.
func (m *Machine) Step(nowMs int64, e *Event) []Effect {
	invariant.Check(e.Kind < kindCount, "an event has a kind")
	clear(m.effects) // so that ended calls and watches are not kept alive
	m.effects = m.effects[:0]
	m.nowMs = max(m.nowMs, nowMs)
	if m.stale(e) {
		return nil
	}
	// A reply may prove the session alive after all; every other event finds a
	// session whose time is over already lost (clientsession-C4).
	if e.Kind != Replied && e.Kind != Greeted {
		m.expireIfOver()
	}
	if handle := handlers[m.phase][e.Kind]; handle != nil {
		handle(m, e)
	}
	m.expireIfOver()
	return m.effects
}

// stale reports whether e comes from a connection that is not the current one.
func (m *Machine) stale(e *Event) bool {
	switch e.Kind {
	case Dialed, Greeted, Replied, Notified, Flushed, Lost, Refused:
		return e.Conn != m.conn
	}
	return false
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// deadlineMs is when the session must be taken for expired.
func (m *Machine) deadlineMs() int64 {
	if m.session == 0 || !m.seenWritable || m.phase == ended {
		return never
	}
	return m.ackedMs + m.timeoutMs
}

func (m *Machine) expireIfOver() {
	if m.nowMs >= m.deadlineMs() {
		m.end(LostState, zk.ErrSessionExpired)
	}
}

// acked notes that a request sent at sentMs has reached the session.
func (m *Machine) acked(sentMs int64) {
	invariant.Check(sentMs <= m.nowMs, "C4: an answer is younger than its request")
	m.ackedMs = max(m.ackedMs, sentMs)
	m.proof.answered(sentMs, m.nowMs, m.timeoutMs)
}

// readTimeoutMs is how long a server may be silent before it is left. Pings go
// out at half of it, so that a second one still has time to be answered.
func (m *Machine) readTimeoutMs() int64 { return m.timeoutMs * 2 / 3 }

// WakeMs returns when the machine wants a Tick at the latest.
func (m *Machine) WakeMs() int64 {
	at := m.deadlineMs()
	switch m.phase {
	case pausing:
		at = min(at, m.wakeMs)
	case dialling, greeting:
		at = min(at, m.attemptMs)
	case attached:
		at = min(at, m.sentMs+m.readTimeoutMs()/2, m.seenMs+m.readTimeoutMs(), m.reseatMs)
		if m.state == ReadOnly {
			at = min(at, m.probeMs)
		}
	case closing:
		at = min(at, m.seenMs+m.readTimeoutMs())
	}
	return at
}

// Session returns what the session is known by; the id is 0 before the first
// server was reached.
func (m *Machine) Session() (zk.SessionID, zk.Password) { return m.session, m.password }

// TimeoutMs returns the shortest timeout that was negotiated for the session,
// before that the one asked for.
func (m *Machine) TimeoutMs() int64 { return m.timeoutMs }

// LastZxid returns the highest zxid seen, in a reply or with an event: no server that
// is behind it will do. That of an event says nothing about other events of its
// transaction, so watches are set again from the last reply.
func (m *Machine) LastZxid() zk.Zxid { return max(m.lastZxid, m.eventZxid) }

// State returns the session's state.
func (m *Machine) State() State { return m.state }

// ProvenMs returns until when the session surely lives unless it is closed, and
// whether anything is known of that (clientsession-C7). Of a session that is being
// closed nothing is.
func (m *Machine) ProvenMs() (int64, bool) {
	if m.phase == closing || m.phase == ended {
		return 0, false
	}
	return m.proof.untilMs, m.proof.known
}

// DecidedMs returns when the newest write was sent of which it is known that a
// quorum has decided it, 0 before the first.
func (m *Machine) DecidedMs() int64 { return m.proof.decidedMs }

// Address returns the server the session is attached to, "" if none.
func (m *Machine) Address() string {
	if m.phase == attached || m.phase == closing {
		return m.address
	}
	return ""
}

// Backlog returns how many calls are waiting for a connection or a reply.
func (m *Machine) Backlog() int { return m.waiting.len() + m.pending.len() }
