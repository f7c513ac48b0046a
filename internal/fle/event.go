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
	// Seen is the proposed next configuration; nil if there is none newer than Committed.
	Seen quorum.Set
	// Learned is a configuration that a peer has as a proposal in its log and this server has
	// not. Its servers vote and can lead, but nothing needs its quorum. Nil for none.
	Learned quorum.Set
	// Version is the version of Committed, and Config its text; both are sent with every
	// notification.
	Version int64
	Config  string
	// SeenVersion and SeenConfig are the version and the text of Seen; 0 and empty without one.
	// They are sent as well.
	SeenVersion int64
	SeenConfig  string
	// Fixed is set if this server takes part in no change of the ensemble (reconfigEnabled is
	// off). It adopts a newer configuration only if a quorum of Committed has it.
	Fixed bool
	// Oracle is set if Committed has two participants, one of which may go on without the other
	// if the oracle says so. Alone is set if that one is this server.
	Oracle, Alone bool
}

// Event is something that has happened. Step takes one at a time.
type Event interface{ event() }

type (
	// Look begins an election, at the start and whenever this server has left its role. The
	// zxid is the last one in the log, committed or not, after the whole log was read; -1 if
	// the history cannot be trusted.
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

	// Synced says that this server is synchronized with its leader in this epoch or, as leader,
	// has a quorum that is synchronized with it.
	Synced struct{ Epoch int64 }

	// Left says that this server does not lead any more, and cannot look yet: its disk has not
	// stored what the leader wrote. On a server that does not lead it changes nothing.
	Left struct{}

	// Reconfigured says that another configuration is in force, or proposed. If this server is
	// looking, the election starts again.
	Reconfigured struct{ Ensemble }

	// Appointed says that a reconfiguration has chosen this server's leader, itself or another
	// server, without an election. It is ignored before the first Look, and if that leader is
	// not a participant with weight.
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
func (Left) event()         {}
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
	// Send sends a notification to a peer. Of several that wait for the same peer only the last
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
		// Joined is set if the leadership existed already: it was reported, or appointed, and
		// not decided by votes here.
		Joined bool
	}

	// Adopt says that a peer's configuration is newer than the one in force here, while this
	// server is looking. The caller checks the text, puts it in force, and answers with
	// Reconfigured. It is emitted once for each server and version.
	Adopt struct {
		From    quorum.ID
		Version int64
		Config  string
	}

	// Learned says that a participant has a configuration in its log that is newer than any
	// this server has, while this server is looking. The caller answers with Reconfigured, with
	// that configuration as Ensemble.Learned. It is emitted once for each version in an
	// election.
	Learned struct {
		From    quorum.ID
		Version int64
		Config  string
	}

	// Doubt says that the leader will not lead: the caller leaves it and answers with Look. On
	// a follower, the leader has voted for another server. On a leader, which is named itself
	// then, so many supporters have left that nobody else can join. It comes only before
	// Synced.
	Doubt struct{ Leader quorum.ID }

	// Disloyal says that a participant which supported this leader is looking again, or follows
	// another leader (ZOOKEEPER-3109).
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
