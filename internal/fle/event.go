package fle

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Ensemble is the configuration as the election sees it.
type Ensemble struct {
	// Committed is the configuration in force.
	Committed quorum.Set
	// Seen is the one that is proposed to follow; nil if there is none newer
	// than Committed.
	Seen quorum.Set
	// Learned is one that a peer has proposed in its log, and this server has not:
	// its servers vote and can lead, but nothing needs its quorum. Nil for none.
	Learned quorum.Set
	// Version is that of Committed, and Config its text, which goes out with
	// every notification.
	Version int64
	Config  string
	// SeenVersion and SeenConfig are those of Seen, 0 and empty without one. They
	// go out as well.
	SeenVersion int64
	SeenConfig  string
	// Fixed: this server takes part in no change of the ensemble (reconfigEnabled is
	// off). It adopts a newer configuration only if a quorum of Committed has it.
	Fixed bool
	// Oracle: Committed has two participants, of which one may go on without the other if
	// somebody from outside says so; Alone: this one.
	Oracle, Alone bool
}

// Event is something that happened. One is given at a time.
type Event interface{ event() }

type (
	// Look begins an election, at the start and whenever this server has left
	// its role. The zxid is the last one in the log after all of it was read,
	// committed or not; -1 if the history cannot be trusted.
	Look struct {
		Zxid zk.Zxid
		// Epoch is the current epoch, as it is on disk.
		Epoch int64
	}

	// Received is a notification of a peer.
	Received struct {
		From quorum.ID
		Notification
	}

	// Synced says that this server is in step with its leader, or as leader
	// has a quorum in step, in this epoch.
	Synced struct{ Epoch int64 }

	// Reconfigured says that another configuration is in force, or proposed.
	// While looking, the election starts again.
	Reconfigured struct{ Ensemble }

	// Appointed says that a reconfiguration made this server's leader, itself
	// or another, without an election. It is ignored before the first Look and
	// when that leader is no participant with weight.
	Appointed struct {
		Leader quorum.ID
		Zxid   zk.Zxid
	}

	// Tick says that time has passed.
	Tick struct{}
)

func (Look) event()         {}
func (Received) event()     {}
func (Synced) event()       {}
func (Reconfigured) event() {}
func (Appointed) event()    {}
func (Tick) event()         {}

// Effect is something to carry out. Effects of one step are carried out in
// their order.
type Effect interface {
	effect()
	String() string
}

type (
	// Send tells a peer. Of several to the same peer that wait, only the last
	// one matters: a queue of old votes slows an election down.
	Send struct {
		To quorum.ID
		Notification
	}

	// Elected ends an election: this server now leads, follows or observes.
	Elected struct {
		State State // never Looking
		Vote
		Round int64
		// Joined says that there was a leadership already: it was reported, or
		// appointed, and not decided by votes here.
		Joined bool
	}

	// Adopt says that a peer's configuration is newer than the one in force
	// here, and this server is looking: check the text, make it the one in
	// force, and say Reconfigured. Said once for a version of a server.
	Adopt struct {
		From    quorum.ID
		Version int64
		Config  string
	}

	// Learned says that a participant has a configuration in its log that is newer than any
	// this server has, and this server is looking: answer with Reconfigured, and the
	// configuration as Ensemble.Learned. Emitted once per version in an election.
	Learned struct {
		From    quorum.ID
		Version int64
		Config  string
	}

	// Doubt says that the leader will not lead: leave it, and answer with Look. A
	// follower received its leader's vote for another; a leader, which is named
	// itself, lost so many supporters that nobody else can join. It comes only before Synced.
	Doubt struct{ Leader quorum.ID }

	// Disloyal says that a participant which was for this leader is looking again, or
	// follows another (ZOOKEEPER-3109).
	Disloyal struct{ Participant quorum.ID }
)

func (Send) effect()     {}
func (Elected) effect()  {}
func (Adopt) effect()    {}
func (Learned) effect()  {}
func (Doubt) effect()    {}
func (Disloyal) effect() {}

func (e Send) String() string { return fmt.Sprintf("-> %d %v", e.To, e.Notification) }
func (e Elected) String() string {
	verb := "ELECTED"
	if e.Joined {
		verb = "JOINED"
	}
	return fmt.Sprintf("%s %v %v round=%d", verb, e.State, e.Vote, e.Round)
}
func (e Adopt) String() string    { return fmt.Sprintf("ADOPT config=%d of %d", e.Version, e.From) }
func (e Learned) String() string  { return fmt.Sprintf("LEARNED config=%d of %d", e.Version, e.From) }
func (e Doubt) String() string    { return fmt.Sprintf("DOUBT %d", e.Leader) }
func (e Disloyal) String() string { return fmt.Sprintf("DISLOYAL %d", e.Participant) }
