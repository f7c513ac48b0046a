package fle

import "fmt"

// State is what a server does at present. The values are those of the protocol.
type State int32

// The states of a server.
const (
	Looking   State = 0 // takes part in an election
	Following State = 1
	Leading   State = 2
	Observing State = 3 // follows without a vote
	states          = 4
)

// String returns the name of a state in traces.
func (s State) String() string {
	names := [states]string{"looking", "following", "leading", "observing"}
	if s < 0 || s >= states {
		return fmt.Sprintf("state(%d)", int32(s))
	}
	return names[s]
}

// Notification is the message that servers send each other in an election.
type Notification struct {
	State State
	Vote
	// Round is the sender's logical clock. If the sender is not looking, it is the round in
	// which its vote was decided, or a later one in which it voted before it joined. Apache's
	// servers send the former.
	Round int64
	// Version is the format that the sender uses: 0 is the oldest, 1 includes the vote's epoch,
	// 2 its configuration (ZOOKEEPER-1810).
	Version int32
	// Config is the text of the sender's configuration in force, empty if it
	// sent none; ConfigVersion is its version, 0 without one.
	Config        string
	ConfigVersion int64
	// Proposed is the text of a configuration that is in the sender's log and not known to be
	// in force; empty without one. ProposedVersion is its version. Apache's servers neither
	// send nor read it. A server that does not have the proposal needs it to count the votes of
	// the servers that do, and to find a leader that is in no other configuration.
	Proposed        string
	ProposedVersion int64
}

// versionSent is the format of what this package sends.
const versionSent = 2

// String prints a notification for traces.
func (n Notification) String() string {
	text := fmt.Sprintf("%v for %v round=%d", n.State, n.Vote, n.Round)
	if n.State != Looking {
		text = fmt.Sprintf("%v %v round=%d", n.State, n.Vote, n.Round)
	}
	if n.ConfigVersion != 0 {
		text += fmt.Sprintf(" config=%d", n.ConfigVersion)
	}
	if n.ProposedVersion != 0 {
		text += fmt.Sprintf(" proposed=%d", n.ProposedVersion)
	}
	return text
}
