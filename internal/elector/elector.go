// Package elector decides when one candidate may consider itself leader.
//
// A Machine is one candidate's part of an election over some store: a state machine that takes
// an Event and the time in milliseconds, and returns the Effects to carry out, in order. It
// starts no goroutine, reads no clock and does no I/O; package election feeds it, and a
// simulator can.
//
// What always holds, by number, so that code and tests can name it:
//
//	elector-L1  Between Elect and Lost the store has promised to keep others
//	            out: the deadline counts from when the last successful request
//	            was sent, less the drift margin. The time is checked before every
//	            event, so that no late answer revives a leadership that ran out.
//	elector-L2  For every Elect there is exactly one End and exactly one Lost,
//	            in this order, and the next Elect comes after both.
//	elector-L3  A claim is released only after the function of its Elect has
//	            ended.
//	elector-L4  Answers are matched by attempt. A grant for an attempt that is
//	            over is released, never used.
//	elector-L5  The tokens of successive Elects grow.
//	elector-L6  An attempt that failed is withdrawn before the next one begins:
//	            even if its reply was lost, its effect may not be.
//	elector-L7  A leadership is handed over to a chosen candidate only after
//	            that candidate has been reported as ready; until then this
//	            candidate continues to lead.
//	elector-L8  An unhealthy candidate does not begin to campaign, and none
//	            begins before its first health check has passed.
//	elector-L9  A function that has not ended EndLimitMs after it was told to is
//	            stuck: that is reported once, and its grant is no longer renewed,
//	            so that others can lead when it has run out.
//
// The package does not know how a store works. It does not promise that others cannot act after
// Lost: the token serves that purpose.
package elector

import "github.com/conclave-project/conclave/internal/invariant"

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	// LeaseMs is the lease to request; zero means whatever the store gives.
	LeaseMs int64
	// GraceMs is how long before the deadline the function is told to end. If a store gives a
	// shorter lease than LeaseMs, the grace is shortened in proportion.
	GraceMs int64
	// EndLimitMs is how long the function may take to end while its leadership is renewed
	// (elector-L9). Zero means no limit.
	EndLimitMs int64
	// DriftPercent is how much the rates of clocks may differ, 0 to 25.
	DriftPercent int64
	// RetryMs is the pause after the first failure and between two leaderships. It doubles with
	// each failure up to RetryMaxMs.
	RetryMs, RetryMaxMs int64
	// ReleaseMs is how long a release or a withdrawal may take.
	ReleaseMs int64
	// Forever makes the candidate campaign again after a leadership has ended.
	Forever bool
	// HealthFailures is how many health checks in a row must fail before this candidate counts
	// as unhealthy. Then it neither leads nor campaigns until a check passes. Zero means that
	// there are no checks.
	HealthFailures int
	// Seed spreads the pauses of different candidates.
	Seed uint64
}

type phase uint8

const (
	idle        phase = iota
	campaigning       // an attempt is in progress at the backend
	abandoning        // the attempt was cancelled, and its answer has not come yet
	leading           // the function runs
	ending            // the function was told to end; still leading
	fenced            // no longer leads, but the function still runs
	releasing         // the claim is being released
	waiting           // pause before the next campaign
	finished
)

// Machine is one candidate. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	seed  uint64
	phase phase
	out   []Effect

	attempt  uint64
	failures int
	token    uint64 // of the last Elect, kept for elector-L5
	reason   Reason
	final    bool // there is no further campaign, even with Forever
	stopped  bool // only Stop has ended the run; Forever would have continued it

	leaseMs    int64
	deadlineMs int64
	provenMs   int64 // when the request was sent that last proved the grant
	endSaidMs  int64
	stuckSaid  bool

	renewal     uint64
	renewOpen   bool
	renewSentMs int64
	renewNextMs int64
	renewHurry  bool // news came while a renewal was in progress

	untilMs int64 // end of the present pause, abandonment or release

	unhealthy  bool
	checksLost int // failed health checks in a row

	nomination     uint64
	nominationOpen bool
	nominatesRival bool // the nomination is that of a rival; valid while one is open
	outranked      int  // renewals in a row that reported a rival, minus those to ignore
	refused        int  // nominations of rivals in a row that led to nothing

	said said
}

// said records what the shell was told, as far as the rules depend on it.
type said struct {
	claimed bool // Acquire was emitted, and no Release since
	elected bool // Elect was emitted, and no Lost since
	ending  bool // End was emitted since Elect
	running bool // Elect was emitted, and the function has not ended
	ready   bool // a nominee of this leadership was reported as ready
}

// New returns a machine that waits for Start.
func New(cfg Config) *Machine {
	if cfg.Seed == 0 {
		cfg.Seed = 1
	}
	return &Machine{cfg: cfg, seed: cfg.Seed, unhealthy: cfg.HealthFailures > 0}
}

// Step takes one event at the given time and returns what to do. The slice is
// valid until the next step. Times must not go back.
func (m *Machine) Step(nowMs int64, event Event) []Effect {
	m.out = m.out[:0]
	m.tick(nowMs)
	switch e := event.(type) {
	case Start:
		m.onStart(nowMs)
	case Acquired:
		m.onAcquired(nowMs, e)
	case AcquireFailed:
		m.onAcquireFailed(nowMs, e)
	case Renewed:
		m.onRenewed(e)
	case Hurry:
		m.onHurry(nowMs, e)
	case RenewFailed:
		m.onRenewFailed(nowMs, e)
	case LossSeen:
		m.onLossSeen(nowMs, e)
	case EndSeen:
		m.onEndSeen(nowMs, e)
	case FunctionEnded:
		m.onFunctionEnded(nowMs, e)
	case Released:
		m.onReleased(nowMs, e)
	case Resign:
		m.onResign(nowMs, e)
	case Transfer:
		m.onTransfer()
	case Nominated:
		m.onNominated(nowMs, e)
	case Health:
		m.onHealth(nowMs, e)
	case Stop:
		m.onStop(nowMs)
	}
	m.tick(nowMs)
	invariant.Check(!m.Leads() || nowMs < m.deadlineMs, "elector: leads after its deadline (elector-L1)")
	return m.out
}

// WakeMs returns when the machine needs its next Tick; false when only an answer can change
// anything.
func (m *Machine) WakeMs() (int64, bool) {
	switch m.phase {
	case leading:
		return min(m.renewWake(), m.endMs()), true
	case ending:
		return min(m.renewWake(), m.stuckMs(), m.deadlineMs), true
	case fenced:
		return m.stuckMs(), !m.stuckSaid
	case abandoning, releasing:
		return m.untilMs, true
	case waiting:
		return m.untilMs, !m.unhealthy
	}
	return 0, false
}

// State is what a candidate is doing, as reported to people.
type State uint8

// The states.
const (
	StateStopped   State = iota // it has not begun, or has finished
	StateWaiting                // it campaigns, or will soon
	StateUnhealthy              // it does not campaign because it is unhealthy (elector-L8)
	StateLeading                // its function runs
	StateEnding                 // its function was told to end; nobody else can lead yet
	StateLost                   // it no longer leads, but its function still runs
	StateStuck                  // its function has not ended in time (elector-L9)
)

var stateNames = [...]string{"stopped", "waiting", "unhealthy", "leading", "ending", "lost", "stuck"}

// String returns the state as text.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

// State returns what the candidate is doing.
func (m *Machine) State() State {
	switch {
	case m.phase == idle, m.phase == finished:
		return StateStopped
	case m.phase == leading:
		return StateLeading
	case m.functionRuns() && m.stuckSaid:
		return StateStuck
	case m.phase == ending:
		return StateEnding
	case m.phase == fenced:
		return StateLost
	case m.unhealthy:
		return StateUnhealthy
	}
	return StateWaiting
}

// Leads reports whether the machine is between Elect and Lost.
func (m *Machine) Leads() bool { return m.phase == leading || m.phase == ending }

func (m *Machine) emit(e Effect) {
	m.check(e)
	m.out = append(m.out, e)
}

func (m *Machine) onStart(nowMs int64) {
	if m.phase == idle {
		m.phase, m.untilMs = waiting, nowMs // tick begins the campaign, unless elector-L8 forbids it
	}
}

func (m *Machine) campaign() {
	m.attempt++
	m.phase = campaigning
	m.reason = None
	m.emit(Acquire{m.attempt})
}

func (m *Machine) onAcquired(nowMs int64, e Acquired) {
	switch {
	case e.Attempt != m.attempt:
		m.emit(Release{e.Attempt}) // elector-L4
	case m.phase == abandoning:
		m.release(nowMs)
	case m.phase != campaigning:
		// The same grant reported twice changes nothing while it is in use, and is released
		// when its use is over.
		if !m.functionRuns() {
			m.emit(Release{e.Attempt})
		}
	case e.Token <= m.token:
		m.reason, m.final = TokenStale, true // elector-L5
		m.release(nowMs)
	default:
		m.elect(nowMs, e)
	}
}

func (m *Machine) elect(nowMs int64, e Acquired) {
	m.leaseMs, m.provenMs = e.LeaseMs, e.SentMs
	m.deadlineMs = deadline(e.SentMs, e.LeaseMs, m.cfg.DriftPercent)
	if nowMs >= m.endMs() {
		// The answer took so long that no time is left of the grant.
		m.failures++
		m.release(nowMs)
		return
	}
	invariant.Check(e.Token > m.token, "elector: elected with an old token (elector-L5)")
	m.token = e.Token
	m.failures = 0
	m.phase = leading
	m.stuckSaid = false
	m.renewOpen, m.renewHurry = false, false
	m.nominationOpen, m.outranked, m.refused = false, 0, 0
	m.renewNextMs = e.SentMs + renewEvery(e.LeaseMs)
	m.emit(Elect{e.Attempt, e.Token, m.deadlineMs, m.endMs()})
}

func (m *Machine) onAcquireFailed(nowMs int64, e AcquireFailed) {
	if e.Attempt != m.attempt || m.phase != campaigning && m.phase != abandoning {
		return
	}
	if e.Final {
		m.reason, m.final = Refused, true
	}
	m.failures++
	m.release(nowMs) // elector-L6
}

func (m *Machine) onResign(nowMs int64, e Resign) {
	if e.Attempt == m.attempt && m.phase == leading {
		m.end(nowMs, Resigned)
	}
}

func (m *Machine) onStop(nowMs int64) {
	m.stopped = m.stopped || m.cfg.Forever && !m.final
	m.final = true
	switch m.phase {
	case idle, waiting:
		m.finish(Stopped)
	case campaigning:
		m.reason = Stopped
		m.abandon(nowMs)
	case leading:
		m.end(nowMs, Stopped)
	case abandoning, releasing:
		if m.reason == None {
			m.reason = Stopped
		}
	}
}

// abandon cancels the attempt. Its result is still awaited, and then released.
func (m *Machine) abandon(nowMs int64) {
	m.phase = abandoning
	m.untilMs = nowMs + m.cfg.ReleaseMs
	m.emit(Abandon{m.attempt})
}

func (m *Machine) onFunctionEnded(nowMs int64, e FunctionEnded) {
	if e.Attempt != m.attempt || !m.functionRuns() {
		return
	}
	m.said.running = false
	m.final = m.final || e.Final
	if m.phase == leading {
		m.end(nowMs, Returned)
	}
	if m.phase == ending {
		m.lose(m.reason)
	}
	m.release(nowMs) // elector-L3
}

func (m *Machine) onReleased(nowMs int64, e Released) {
	if e.Attempt == m.attempt && m.phase == releasing {
		m.rest(nowMs)
	}
}

// functionRuns reports whether there was an Elect whose function has not ended.
func (m *Machine) functionRuns() bool {
	return m.phase == leading || m.phase == ending || m.phase == fenced
}

// end tells the function to end, while this candidate still leads.
func (m *Machine) end(nowMs int64, reason Reason) {
	m.phase = ending
	m.reason = reason
	m.endSaidMs = nowMs
	m.emit(End{m.attempt, reason})
}

// lose reports that this candidate no longer leads. The caller changes the phase if necessary.
func (m *Machine) lose(reason Reason) {
	m.phase = fenced
	m.closeRenewal()
	m.emit(Lost{m.attempt, reason})
}

func (m *Machine) release(nowMs int64) {
	m.phase = releasing
	m.untilMs = nowMs + m.cfg.ReleaseMs
	m.emit(Release{m.attempt})
}

// rest follows a release: it begins the pause before the next campaign, or ends the run. An
// attempt that never led is always followed by another one, unless the run must end.
func (m *Machine) rest(nowMs int64) {
	if m.final || m.reason != None && !m.cfg.Forever {
		if m.stopped && m.reason != Refused && m.reason != TokenStale {
			m.reason = Stopped // another leadership would have followed, whatever ended the last one
		}
		m.finish(m.reason)
		return
	}
	m.phase = waiting
	m.untilMs = nowMs + m.pause()
}

func (m *Machine) finish(reason Reason) {
	m.phase = finished
	m.emit(Finish{reason})
}
