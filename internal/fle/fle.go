package fle

import (
	"maps"
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	ID quorum.ID
	// Observer makes a server without a vote observe instead of follow. A participant that is
	// not in the configuration yet follows.
	Observer bool
	// FinalizeMs is how long to wait for a better vote once there is a quorum. With 0 an
	// election takes only round trips; Apache waits 200.
	FinalizeMs int64
	// ResendMinMs is the time without a decision after which the vote is sent again. The pause
	// doubles up to ResendMaxMs. Apache has 200 and 60,000.
	ResendMinMs, ResendMaxMs int64
	// Met is for proofs: it is called for each row of the table that is used. Nil in
	// production.
	Met func(Row)
}

// roundMax is the highest round, and roundJumpMax is how far a single message can raise the
// round. Each election takes one round, so no honest peer is further ahead. A peer that claims
// to be could otherwise raise everybody to a round that cannot grow any more, and nobody could
// hold an election until all servers have been restarted. A server whose round was raised by
// forged messages is followed in jumps.
const (
	roundMax     = 1 << 62
	roundJumpMax = 1 << 20
)

// Machine is one server's part in elections. It is not safe for concurrent use.
type Machine struct {
	cfg      Config
	ensemble Ensemble
	set      quorum.Set // Committed joined with Seen, and widened by Learned
	out      []Effect

	state State
	look  *Look // the event that began the present or last election; nil before the first
	round int64 // the logical clock (fle-F1)

	// While looking.
	initial        Vote  // this server's own vote at the start
	proposal       Vote  // its vote now (fle-F2)
	votes          tally // of this round
	established    tally // of servers that follow or lead, in any round
	resendMs       int64 // when the proposal is sent again
	resendGapMs    int64
	finalizeMs     int64               // when the quorum becomes final; 0 without one
	roundEndMs     int64               // when the round is given up; 0 unless a change of the ensemble is proposed or this server may lead alone
	adopted        map[quorum.ID]int64 // for each server, the last version for which Adopt was emitted
	reported       map[quorum.ID]int64 // with a fixed ensemble: the versions that participants have
	learnedVersion int64               // highest version for which Learned was emitted in this election

	// While following, leading or observing.
	current      Vote
	currentRound int64
	supporters   quorum.IDs // the known supporters of this server's leader, itself included
	synced       bool
	left         bool // it led, and does not look yet (fle-F10)
	doubted      bool // Doubt was emitted
	doubts       int  // how often since Synced

	asked []asker
	early map[quorum.ID]early // votes received while this server was not looking
}

// New returns a machine that waits for Look.
func New(cfg Config, ensemble Ensemble) *Machine {
	checkHandlers()
	m := &Machine{cfg: cfg, early: make(map[quorum.ID]early), adopted: make(map[quorum.ID]int64)}
	m.cfg.ResendMinMs = max(1, cfg.ResendMinMs)
	m.cfg.ResendMaxMs = max(m.cfg.ResendMinMs, cfg.ResendMaxMs)
	m.configure(ensemble)
	return m
}

// handler is the reaction to one notification of a participant.
type handler func(m *Machine, nowMs int64, from quorum.ID, n *Notification)

// handlers has a reaction for each state of this server and each state of the sender. All cells
// are filled: what is ignored is ignored by name.
var handlers = [states][states]handler{
	Looking: {
		Looking:   (*Machine).lookingReceivesLooking,
		Following: (*Machine).lookingReceivesDecided,
		Leading:   (*Machine).lookingReceivesDecided,
		Observing: (*Machine).ignore,
	},
	Following: {
		Looking:   (*Machine).followingReceivesLooking,
		Following: (*Machine).followingReceivesFollowing,
		Leading:   (*Machine).ignore,
		Observing: (*Machine).ignore,
	},
	Leading: {
		Looking:   (*Machine).leadingReceivesLooking,
		Following: (*Machine).leadingReceivesDecided,
		Leading:   (*Machine).leadingReceivesDecided,
		Observing: (*Machine).ignore,
	},
	Observing: {
		Looking:   (*Machine).followingReceivesLooking,
		Following: (*Machine).followingReceivesFollowing,
		Leading:   (*Machine).ignore,
		Observing: (*Machine).ignore,
	},
}

func checkHandlers() {
	for _, row := range handlers {
		for _, cell := range row {
			invariant.Check(cell != nil, "fle: a pair of states has no handler")
		}
	}
}

// ignore is for notifications without news: those of observers, and those of servers that have
// decided when this server has decided too.
func (m *Machine) ignore(int64, quorum.ID, *Notification) {}

// Step takes one event at the given time and returns what to do. The slice is
// valid until the next step. Times must not go back.
func (m *Machine) Step(nowMs int64, event Event) []Effect {
	m.out = m.out[:0]
	switch e := event.(type) {
	case Look:
		m.learnedVersion = 0
		m.onLook(nowMs, e)
	case Received:
		m.onReceived(nowMs, e.From, &e.Notification)
	case Synced:
		m.onSynced(nowMs, e)
	case Left:
		m.left = m.state == Leading
	case Reconfigured:
		m.onReconfigured(nowMs, e)
	case Appointed:
		m.onAppointed(nowMs, e)
	}
	m.tick(nowMs)
	return m.out
}

// State returns what this server does as far as elections are concerned. It is Looking before
// the first Look.
func (m *Machine) State() State { return m.state }

// Vote returns the vote that this server sends: the proposal while looking, afterwards the vote
// for its leader.
func (m *Machine) Vote() Vote {
	if m.state == Looking {
		return m.proposal
	}
	return m.current
}

// Round returns the logical clock.
func (m *Machine) Round() int64 { return m.round }

// Cast says which server a server votes for.
type Cast struct{ From, For quorum.ID }

// Votes returns the votes of this round that a looking server has, including its own, in the
// order of the servers; none if it is not looking.
func (m *Machine) Votes() []Cast {
	var all []Cast
	for _, id := range slices.Sorted(maps.Keys(m.votes)) {
		all = append(all, Cast{id, m.votes[id].Leader})
	}
	return all
}

// Supporters returns the servers that are known to support the elected leader, this server
// included.
func (m *Machine) Supporters() quorum.IDs { return slices.Clone(m.supporters) }

// WakeMs returns when the machine needs its next Tick; false if only another event can change
// anything.
func (m *Machine) WakeMs() (int64, bool) {
	if m.state != Looking || m.look == nil {
		return 0, false
	}
	wakeMs := m.resendMs
	for _, otherMs := range [...]int64{m.finalizeMs, m.roundEndMs} {
		if otherMs != 0 {
			wakeMs = min(wakeMs, otherMs)
		}
	}
	return wakeMs, true
}

// participant reports whether this server has a vote.
func (m *Machine) participant() bool { return m.set.Participants().Has(m.cfg.ID) }

// configure adopts a configuration.
func (m *Machine) configure(e Ensemble) {
	m.ensemble = e
	m.set = quorum.NewWidened(quorum.NewJoint(e.Committed, e.Seen), e.Learned)
}

// onReconfigured adopts a configuration. An election under way begins again, because its votes
// were counted by other rules. It begins in the next round, so earlier votes do not count.
// (Apache starts again at round 1, so peers must not rely on another server's round to grow.)
func (m *Machine) onReconfigured(nowMs int64, e Reconfigured) {
	m.configure(e.Ensemble)
	maps.DeleteFunc(m.early, func(id quorum.ID, _ early) bool { return !m.set.Participants().Has(id) })
	if m.state == Looking && m.look != nil {
		m.onLook(nowMs, *m.look)
	}
}

// onAppointed takes a role that a reconfiguration assigned. A leader that could not be elected
// is ignored.
func (m *Machine) onAppointed(nowMs int64, e Appointed) {
	if m.look == nil || m.set.Weight(e.Leader) == 0 {
		return
	}
	epoch, round := m.current.Epoch, m.currentRound
	if m.state == Looking {
		epoch, round = m.look.Epoch, m.round
	}
	m.takeRole(nowMs, Elected{Vote: Vote{e.Leader, e.Zxid, epoch}, Round: round, Joined: true}, nil)
}

// onSynced puts the established epoch into the vote. Otherwise a latecomer would see two
// different votes and never join (ZOOKEEPER-1732).
func (m *Machine) onSynced(nowMs int64, e Synced) {
	if m.state == Looking {
		return
	}
	m.current.Epoch = e.Epoch
	m.synced = true
	m.doubts = 0
	m.tellAsked(nowMs)
}

// notification returns what this server tells others at present. The round in it is always its
// own logical clock. A server may have joined a leadership of a lower round after voting in
// this one; with that lower round its message would look outdated to the servers it voted with.
func (m *Machine) notification() Notification {
	return Notification{State: m.state, Vote: m.Vote(), Round: m.round, Version: versionSent,
		Config: m.ensemble.Config, ConfigVersion: m.ensemble.Version,
		Proposed: m.ensemble.SeenConfig, ProposedVersion: m.ensemble.SeenVersion}
}

// trusted reports whether a zxid may be voted for (fle-F6).
func trusted(z zk.Zxid) bool { return z != untrusted }
