package zab

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Kind says what a message is. The numbers are those of ZooKeeper's packets.
type Kind uint8

// The kinds of messages: who sends each one to whom (M leader, L any learner, F follower, O
// observer) and the fields that it uses besides Kind and Zxid.
const (
	KindRequest           Kind = 1  // L->M  Request: a client's write or sync; Zxid: see Behind
	KindProposal          Kind = 2  // M->F  Payload: log this (to observers only in synchronization)
	KindAck               Kind = 3  // L->M  Zxid is logged; epoch<<32 answers NEWLEADER and UPTODATE
	KindCommit            Kind = 4  // M->F  Zxid is committed (to observers only in synchronization)
	KindPing              Kind = 5  // both  Touches, from a learner
	KindRevalidate        Kind = 6  // both  Session, TimeoutMs; Valid in the answer; Zxid: see Behind
	KindSync              Kind = 7  // M->L  answers the oldest unanswered sync of this learner
	KindInform            Kind = 8  // M->O  Payload: a committed transaction
	KindCommitAndActivate Kind = 9  // M->F  Leader: the commit of a reconfig
	KindNewLeader         Kind = 10 // M->L  Payload: the text of the configuration; Zxid is epoch<<32
	KindFollowerInfo      Kind = 11 // L->M  Hello; Zxid is accepted epoch<<32
	KindUpToDate          Kind = 12 // M->L  the learner may serve clients
	KindDiff              Kind = 13 // M->L  what follows continues the learner's history
	KindTrunc             Kind = 14 // M->L  truncate the log after Zxid
	KindSnap              Kind = 15 // M->L  a snapshot follows on the link
	KindObserverInfo      Kind = 16 // L->M  Hello; Zxid is accepted epoch<<32
	KindLeaderInfo        Kind = 17 // M->L  Zxid is the new epoch<<32
	KindAckEpoch          Kind = 18 // L->M  Zxid is the last logged zxid, Epoch the current epoch
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

// Behind is the zxid of a REQUEST or REVALIDATE that an observer master forwards for the
// observer on a link. It lets the leader distinguish the observers behind that master. Without
// an observer it is NoZxid. Apache servers send -1, and their leader ignores the zxid of these
// messages.
func Behind(link LinkID) zk.Zxid { return zk.NoZxid - zk.Zxid(link) }

// NoEpoch is the current epoch in the ACKEPOCH of a learner that must not be counted: it had
// accepted the epoch before, or it has no history.
const NoEpoch int64 = -1

// Message is what servers send each other on a link, as a value; package peerwire does the
// encoding. A receiver must not change what a message points at.
type Message struct {
	Kind       Kind
	Valid      bool
	Cumulative bool // of LEADERINFO: the link is cumulative, see Hello
	TimeoutMs  int32
	Zxid       zk.Zxid
	Epoch      int64 // of ACKEPOCH; in a hello that is Named, the process that sent it
	Session    zk.SessionID
	Leader     quorum.ID // of an activation; in a hello that is Named, the server that the learner means
	Hello      Hello
	Payload    []byte
	Touches    []Touch
	Request    *Request
}

// Hello is what a learner says about itself: its number, negative if it has none, and the
// version of its committed configuration.
//
// On a cumulative link an ACK covers all records up to its own, and so does a COMMIT, but
// CumulativeMax records at most, because the step that handles one message must not take long.
// A follower says that it supports this, and its leader answers whether the link is cumulative.
// Only Conclave servers do so: Apache servers read neither field, and send and expect one ACK
// and one COMMIT for each record.
//
// Every Conclave server sends a hello that is Named. Its Leader is the server that the learner
// means, and any other server at that address ends the link. Its Epoch identifies the process
// that sends it: two different values with the same Server are a server that was restarted, or
// two servers with one number.
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

// Request is a client's write or sync that a learner forwards, with everything that the leader
// needs to decide it: ACLs are checked by the leader, not by the learner.
type Request struct {
	Session    zk.SessionID
	Xid        zk.Xid
	Op         zk.Op
	Body       []byte // as the client sent it
	Identities []zk.Identity
}

// CumulativeMax is how many records an ACK or a COMMIT covers at most.
const CumulativeMax = 32

// epochOf returns the epoch that LEADERINFO, NEWLEADER and the hellos carry in Zxid.
func (m *Message) epochOf() uint32 { return m.Zxid.Epoch() }
