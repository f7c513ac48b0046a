package zab

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Kind says what a message is. The numbers are those of ZooKeeper's packets.
type Kind uint8

// The kinds of messages: who sends it to whom (M leader, L any learner, F
// follower, O observer) and which fields it uses beside Kind and Zxid.
const (
	KindRequest           Kind = 1  // L->M  Request: a client's write or sync; Zxid: see Behind
	KindProposal          Kind = 2  // M->F  Payload: log this (to observers only in synchronization)
	KindAck               Kind = 3  // L->M  Zxid is logged; epoch<<32 answers NEWLEADER and UPTODATE
	KindCommit            Kind = 4  // M->F  Zxid is committed (to observers only in synchronization)
	KindPing              Kind = 5  // both  Touches, from a learner
	KindRevalidate        Kind = 6  // both  Session, TimeoutMs; Valid in the answer; Zxid: see Behind
	KindSync              Kind = 7  // M->L  answers the oldest sync of this learner
	KindInform            Kind = 8  // M->O  Payload: a committed transaction
	KindCommitAndActivate Kind = 9  // M->F  Leader: the commit of a reconfig
	KindNewLeader         Kind = 10 // M->L  Payload is the text of the configuration; Zxid is epoch<<32
	KindFollowerInfo      Kind = 11 // L->M  Hello; Zxid is accepted epoch<<32
	KindUpToDate          Kind = 12 // M->L  may serve clients
	KindDiff              Kind = 13 // M->L  what follows continues your history
	KindTrunc             Kind = 14 // M->L  cut your log after Zxid
	KindSnap              Kind = 15 // M->L  a snapshot follows on the link
	KindObserverInfo      Kind = 16 // L->M  Hello; Zxid is accepted epoch<<32
	KindLeaderInfo        Kind = 17 // M->L  Zxid is the new epoch<<32
	KindAckEpoch          Kind = 18 // L->M  Zxid is the last logged one, Epoch the current one
	KindInformAndActivate Kind = 19 // M->O  Payload, Leader: a committed reconfig

	kinds = 20
)

var kindNames = [kinds]string{
	"?", "REQUEST", "PROPOSAL", "ACK", "COMMIT", "PING", "REVALIDATE", "SYNC", "INFORM", "COMMITANDACTIVATE",
	"NEWLEADER", "FOLLOWERINFO", "UPTODATE", "DIFF", "TRUNC", "SNAP", "OBSERVERINFO", "LEADERINFO", "ACKEPOCH",
	"INFORMANDACTIVATE",
}

// String is the name in ZooKeeper's documents.
func (k Kind) String() string {
	if k >= kinds {
		return kindNames[0]
	}
	return kindNames[k]
}

// Behind is the zxid of a REQUEST or REVALIDATE that an observer master hands on for the
// observer of a link: its leader can tell those apart who are behind it. Where nobody is, it is
// NoZxid. Apache's servers send -1, and their leader looks at no zxid of these.
func Behind(link LinkID) zk.Zxid { return zk.NoZxid - zk.Zxid(link) }

// NoEpoch is the current epoch in the ACKEPOCH of a learner that must not be
// counted: it had accepted the epoch before, or it has no history.
const NoEpoch int64 = -1

// Message is what servers tell each other on one link, as a value; bytes are
// the business of peerwire. A receiver must not change what it points at.
type Message struct {
	Kind       Kind
	Valid      bool
	Cumulative bool // of LEADERINFO: the link is cumulative, see Hello
	TimeoutMs  int32
	Zxid       zk.Zxid
	Epoch      int64 // of ACKEPOCH; of a hello that is Named the process that speaks
	Session    zk.SessionID
	Leader     quorum.ID // of an activation; of a hello that is Named whom the learner means
	Hello      Hello
	Payload    []byte
	Touches    []Touch
	Request    *Request
}

// Hello is what a learner says of itself: its number, negative if it has none,
// and the version of its committed configuration. A cumulative link is one on which an ACK
// stands for all records up to its own, and so does a COMMIT, for CumulativeMax at most: what
// comes of one message is a step that must not be long. A follower says that it can
// have one, and its leader whether it is: between servers of Conclave. Apache's servers read
// neither, and send and expect one of each for each record. If it is Named, as by all of Conclave, the
// message has the Leader that the learner means: another server at its address ends the link. It has
// in Epoch the process that speaks: two with one Server are one that was started again, or two servers.
type Hello struct {
	Server        quorum.ID
	ConfigVersion int64
	Cumulative    bool
	Named         bool
}

// Touch is a heartbeat of a session.
type Touch struct {
	Session   zk.SessionID
	TimeoutMs int32
}

// Request is a client's write or sync that a learner forwards, with all that
// the leader needs to decide it: it checks ACLs, the learner does not.
type Request struct {
	Session    zk.SessionID
	Xid        zk.Xid
	Op         zk.Op
	Body       []byte // as the client sent it
	Identities []zk.Identity
}

// epochOf is the epoch that LEADERINFO, NEWLEADER and the hellos carry in Zxid.
// CumulativeMax is how many records an ACK or a COMMIT stands for at most.
const CumulativeMax = 32

func (m *Message) epochOf() uint32 { return m.Zxid.Epoch() }
