// Package algo defines the interface of election algorithms that need no store.
//
// A Machine is one member's part of one election: a state machine that takes an Event and the
// time in milliseconds, and returns the Effects to carry out, in order. It starts no goroutine,
// reads no clock and does no I/O. Package algo/algotest runs many of them in one thread, and
// election/backend/peers connects them over TCP.
//
// What always holds for every machine, by number:
//
//	algo-A1  A machine handles the time before the event: a late event revives nothing that has
//	         run out.
//	algo-A2  A Persist comes before all effects that depend on it, and what follows it is carried
//	         out only once it is on disk.
//	algo-A3  Lead and Lost alternate, Lead first.
//	algo-A4  Only a member that campaigns leads.
//
// The algorithms are in the packages below this one. Of these, only raft promises that no two
// members lead at the same time.
package algo

import "fmt"

// ID names a member. Algorithms that order members compare ids as text.
type ID string

// TermMax is the highest possible term: no sum of terms overflows.
const TermMax = 1<<63 - 1

// Machine is one member's part of one election. It is not safe for concurrent
// use. A machine may be asked for its status at any time.
type Machine interface {
	// Step takes one event and returns what to do. The slice is valid until
	// the next step. Times must not go back.
	Step(nowMs int64, event Event) []Effect
	// WakeMs returns the latest time for the next Tick, and false if only another event can move
	// the machine.
	WakeMs() (int64, bool)
	// Status returns the status after the last step.
	Status() Status
}

// Status is what a member knows.
type Status struct {
	// Leader is the member that leads as far as this member knows, empty for none. It may be this
	// member.
	Leader ID
	// Term is the highest term seen; 0 if the algorithm has no terms.
	Term uint64
	// Leads reports whether this member leads: between Lead and Lost.
	Leads bool
	// UntilMs is until when it may lead without a further proof. It is 0 if the algorithm has no
	// proof.
	UntilMs int64
	// PromisedMs is until when this member keeps others out by what it has promised; a machine
	// that replaces it must not begin before. It is 0 if the algorithm makes no promises.
	PromisedMs int64
}

// State is what a machine keeps on disk.
type State struct {
	// Term is the highest term seen. Vote is the candidate that has this
	// member's vote in it, empty for none.
	Term uint64 `json:"term"`
	Vote ID     `json:"vote,omitempty"`
	// Floor is the last term in which this member may have voted without remembering it. 0 if it
	// has forgotten nothing.
	Floor uint64 `json:"floor,omitempty"`
	// Config is the newest configuration that this member has adopted.
	Config Config `json:"config,omitzero"`
}

// Config names the members that vote. Configurations are ordered by Term, then
// Version.
type Config struct {
	Term    uint64 `json:"term"`
	Version uint64 `json:"version"`
	Members []ID   `json:"members"`
}

// Less reports whether c is older than d.
func (c Config) Less(d Config) bool {
	return c.Term < d.Term || c.Term == d.Term && c.Version < d.Version
}

// String is what traces show.
func (c Config) String() string { return fmt.Sprintf("%d.%d%v", c.Term, c.Version, c.Members) }

// Event is something that happened.
type Event interface{ event() }

type (
	// Campaign says that this member wants to lead, until Withdraw. When the leader is
	// gone, it lets others go first for LaterMs, which a later Campaign may change. Only
	// raft honours LaterMs.
	Campaign struct{ LaterMs int64 }

	// Withdraw says that it does not want to lead any more. A leader steps
	// down and sends StepDown to the others.
	Withdraw struct{}

	// Transfer makes a leader step down in favour of another member, or of
	// itself with a new term. Only raft honours the choice.
	Transfer struct{ To ID }

	// Reconfigure asks a leader to change the members by at most one. Only raft supports
	// it, and drops it if it is not possible now.
	Reconfigure struct{ Members []ID }

	// Received is a message of another member.
	Received struct {
		From ID
		Message
	}

	// Tick says that time has passed.
	Tick struct{}
)

func (Campaign) event()    {}
func (Withdraw) event()    {}
func (Transfer) event()    {}
func (Reconfigure) event() {}
func (Received) event()    {}
func (Tick) event()        {}

// Effect is something to carry out.
type Effect interface {
	effect()
	String() string
}

type (
	// Persist puts the state on disk before the effects that follow (algo-A2).
	Persist struct{ State }

	// Send gives a message to another member. It may be lost.
	Send struct {
		To ID
		Message
	}

	// Lead says that this member leads from here on. Term is 0 where an
	// algorithm has no fencing token. SentMs is when the member sent the
	// heartbeat with which a quorum proved it, UntilMs until when the proof
	// holds; both are 0 where an algorithm has no proof.
	Lead struct {
		Term            uint64
		SentMs, UntilMs int64
	}

	// Extend says that a quorum has proved the leadership again.
	Extend struct{ SentMs, UntilMs int64 }

	// Lost says that this member leads no more.
	Lost struct{ Term uint64 }

	// Follow says that another member leads, or that no leader is known.
	Follow struct {
		Leader ID
		Term   uint64
	}

	// Reconfigured says that a quorum of a configuration has adopted it.
	Reconfigured struct{ Config }
)

func (Persist) effect()      {}
func (Send) effect()         {}
func (Lead) effect()         {}
func (Extend) effect()       {}
func (Lost) effect()         {}
func (Follow) effect()       {}
func (Reconfigured) effect() {}

func (e Persist) String() string {
	text := fmt.Sprintf("persist term=%d vote=%s", e.Term, orNobody(e.Vote))
	if e.Config.Term > 0 || e.Config.Version > 1 {
		text += " config=" + e.Config.String()
	}
	return text
}
func (e Send) String() string { return fmt.Sprintf("-> %s %v", e.To, e.Message) }
func (e Lead) String() string {
	if e.Term == 0 {
		return "LEAD"
	}
	return fmt.Sprintf("LEAD term=%d until=%d", e.Term, e.UntilMs)
}
func (e Extend) String() string { return fmt.Sprintf("extend until=%d", e.UntilMs) }
func (e Lost) String() string {
	if e.Term == 0 {
		return "LOST"
	}
	return fmt.Sprintf("LOST term=%d", e.Term)
}
func (e Follow) String() string {
	if e.Term == 0 {
		return "follow " + orNobody(e.Leader)
	}
	return fmt.Sprintf("follow %s term=%d", orNobody(e.Leader), e.Term)
}
func (e Reconfigured) String() string { return "RECONFIGURED " + e.Config.String() }

func orNobody(id ID) string {
	if id == "" {
		return "nobody"
	}
	return string(id)
}
