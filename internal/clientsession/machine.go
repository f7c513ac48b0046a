package clientsession

import (
	"math"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// Config describes the session to open.
type Config struct {
	TimeoutMs int32        // the session timeout to ask for; the server may grant another one
	Session   zk.SessionID // the session to attach to; 0 for a new one
	Password  zk.Password  // of Session
	LastZxid  zk.Zxid      // last zxid seen in Session; 0 if not known
	ReadOnly  bool         // a server that is partitioned from its quorum is acceptable
	LeaveSoon bool         // the client leaves a server that is silent for a quarter of the timeout
	Seed      uint64       // for the order of servers and the backoff

	BackoffMinMs  int64 // first pause after all servers were tried; 0 is 100
	BackoffMaxMs  int64 // longest pause; 0 is 5000; never above a quarter of the timeout
	ConnectMs     int64 // for one server to connect and greet; 0 leaves it to connectMs
	RearmBytesMax int   // size of one setWatches request; 0 is 128 KiB
}

const (
	backoffMinMs = 100
	backoffMaxMs = 5000
	connectMinMs = 200
	// leaveSoonMinMs is how long a server may always be silent: a garbage collection takes that long.
	leaveSoonMinMs = 500
	// leaveConnectMs is how long a server may always take to connect and greet: it may be far away.
	leaveConnectMs = 1000
	rearmBytesMax  = 128 << 10
	never          = math.MaxInt64
)

// phase is the state of the machine's connection.
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
	ackedMs      int64 // when the last acknowledged request was sent, or the session was resumed
	proof        proof // until when the servers keep the session
	seenWritable bool  // the session exists on the quorum, and not just on a read-only server

	conn       int64 // number of the current connection
	address    string
	attemptMs  int64 // while dialling or greeting: when to give up this server
	greetMs    int64 // when the handshake was sent
	attachedMs int64
	sentMs     int64 // when anything was last sent
	seenMs     int64 // when anything was last received
	pings      []int64
	rearming   int     // setWatches requests not answered yet
	eventZxid  zk.Zxid // of the newest event of a watch
	sinceZxid  zk.Zxid // every one-shot watch has been told of all changes up to this zxid
	probeMs    int64
	probeGapMs int64
	reseatMs   int64 // while attached: when to look up the list of servers again

	addresses []string
	next      int // index of the next server to try
	rounds    int // consecutive failed rounds
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

// New returns the machine of one session. It does nothing before the first Tick.
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

// handlers has the handler for each event in each phase; nil does nothing.
// TestEveryEmptyCellIsMeantToBeEmpty lists the empty cells with their reasons.
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

// Step takes one event and returns what to do about it, in order. nowMs is a monotonic time
// in milliseconds since any start; a value below the last one means that no time has
// passed. The effects are valid until the next step.
func (m *Machine) Step(nowMs int64, e *Event) []Effect {
	invariant.Check(e.Kind < kindCount, "an event has a kind")
	clear(m.effects) // so that ended calls and watches can be freed
	m.effects = m.effects[:0]
	m.nowMs = max(m.nowMs, nowMs)
	if m.stale(e) {
		return nil
	}
	// A reply may still prove that the session lives. Any other event ends a session whose
	// time is over (clientsession-C4).
	if e.Kind != Replied && e.Kind != Greeted {
		m.expireIfOver()
	}
	if handle := handlers[m.phase][e.Kind]; handle != nil {
		handle(m, e)
	}
	m.expireIfOver()
	return m.effects
}

// stale reports whether e belongs to a connection other than the current one.
func (m *Machine) stale(e *Event) bool {
	switch e.Kind {
	case Dialed, Greeted, Replied, Notified, Flushed, Lost, Refused:
		return e.Conn != m.conn
	}
	return false
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// deadlineMs returns when the session must be assumed to have expired.
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

// acked records that a request sent at sentMs has reached the session.
func (m *Machine) acked(sentMs int64) {
	invariant.Check(sentMs <= m.nowMs, "C4: an answer is younger than its request")
	m.ackedMs = max(m.ackedMs, sentMs)
	m.proof.answered(sentMs, m.nowMs, m.timeoutMs)
}

// readTimeoutMs is how long a server may be silent before the client leaves it. Pings are
// sent after half of it, so that a second one can still be answered.
func (m *Machine) readTimeoutMs() int64 {
	if m.config.LeaveSoon {
		return min(m.closeTimeoutMs(), max(m.timeoutMs/4, leaveSoonMinMs))
	}
	return m.closeTimeoutMs()
}

// closeTimeoutMs is how long a server may be silent before it has closed the session.
func (m *Machine) closeTimeoutMs() int64 { return m.timeoutMs * 2 / 3 }

// WakeMs returns when the machine needs a Tick at the latest.
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
		at = min(at, m.seenMs+m.closeTimeoutMs())
	}
	return at
}

// Session returns the id and password of the session; the id is 0 before the first server
// was reached.
func (m *Machine) Session() (zk.SessionID, zk.Password) { return m.session, m.password }

// TimeoutMs returns the shortest timeout that was negotiated for the session; before that,
// the requested one.
func (m *Machine) TimeoutMs() int64 { return m.timeoutMs }

// LastZxid returns the highest zxid seen, in a reply or an event. The client does not use a
// server that is behind it. An event says nothing about other events of its transaction, so
// watches are set again from the last reply.
func (m *Machine) LastZxid() zk.Zxid { return max(m.lastZxid, m.eventZxid) }

// State returns the session's state.
func (m *Machine) State() State { return m.state }

// ProvenMs returns until when the session is certain to live unless it is closed, and
// whether that is known (clientsession-C7). It is not known while the session is being
// closed.
func (m *Machine) ProvenMs() (int64, bool) {
	if m.phase == closing || m.phase == ended {
		return 0, false
	}
	return m.proof.untilMs, m.proof.known
}

// DecidedMs returns when the latest write was sent that a quorum is known to have decided;
// 0 before the first.
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
