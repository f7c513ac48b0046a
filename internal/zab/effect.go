package zab

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// EffectKind says what an effect is.
type EffectKind uint8

// The kinds of effects, and the fields that each uses. Those with a Ticket are for the disk,
// which carries them out, and the appends between them, strictly in the order in which they
// were issued. After a crash a prefix of them is on disk, never a later one without an earlier
// one.
const (
	EffectAppend       EffectKind = iota // Record goes to the log
	EffectSync                           // everything appended becomes durable: Ticket
	EffectSetAccepted                    // the accepted epoch becomes durable: Epoch, Ticket
	EffectSetCurrent                     // the current epoch becomes durable: Epoch, Ticket
	EffectTruncate                       // the log is truncated after Zxid, the tree reloaded: Ticket
	EffectSaveSnapshot                   // the tree, which is at Zxid, becomes a durable snapshot that replaces the log: Ticket
	EffectReadLog                        // read the log around Zxid up to the record To, or a part of that, for Link
	EffectLoadSnapshot                   // the tree is replaced by the snapshot that comes on Link
	EffectSendSnapshot                   // the tree goes out on Link, before anything sent later
	EffectDeliver                        // Record is to be applied to the tree
	EffectConnect                        // connect to Server's quorum port, or, as an observer to its Master, to its port for observers
	EffectSend                           // Message goes out on Link
	EffectClose                          // Link is closed; OK if the reason is that another learner has the same number, Server
	EffectServe                          // clients may be served: Epoch is established
	EffectActivate                       // the configuration of Zxid is in force, Server leads in it; a learner reads it from the record, and answers with EventConfig
	EffectLeave                          // the role is over, clients are disconnected: Reason, Reload
	EffectLook                           // the log is quiet: an election may begin
	EffectRequest                        // a learner's Request is to be decided: Link; Zxid if it comes through an observer master, see Behind
	EffectTouch                          // Touches of a learner's sessions: Link
	EffectRevalidate                     // Session came to the learner of Link: answer with EventRevalidated; Zxid as for EffectRequest
	EffectRevalidated                    // Session may stay, if OK; Link if an observer has asked: answer it with EventRevalidated
	EffectSynced                         // the oldest sync of this server may be answered

	effectKinds
)

// Effect is something to do. Effects are carried out in order. Data that a message depends on
// is stored by an earlier effect of the same step, or the message is an effect of the later
// step that learns that the data is stored.
type Effect struct {
	Kind      EffectKind
	Reload    bool
	Master    bool
	OK        bool
	Reason    Reason
	TimeoutMs int32
	Epoch     uint32
	Link      LinkID
	Server    quorum.ID
	Ticket    Ticket
	Zxid      zk.Zxid
	To        zk.Zxid
	Session   zk.SessionID
	Record    Record
	Message   Message // a learner's PING leaves with the sessions touched since the last; the sender fills them in
	Touches   []Touch
	Request   *Request
}

// Reason says why a role ended.
type Reason uint8

// The reasons of EffectLeave.
const (
	ReasonNone            Reason = iota
	ReasonStopped                // EventStop
	ReasonNoEpochQuorum          // leader: too few learners said hello in time
	ReasonNoAckEpoch             // leader: too few accepted the epoch in time
	ReasonNoNewLeaderAcks        // leader: too few took over the history in time
	ReasonQuorumLost             // leader: too few synced learners answer
	ReasonNewerPromise           // leader: a participant has accepted a later epoch
	ReasonCounter                // leader: the epoch has no zxid left (ZOOKEEPER-1277)
	ReasonLinkLost               // learner: the connection to the leader is gone
	ReasonSilence                // learner: nothing received from the leader for too long
	ReasonOldLeader              // learner: the leader's epoch is below the accepted one
	ReasonIllegal                // learner: a message that is not allowed at this stage
	ReasonGap                    // learner: a proposal does not continue the history
	ReasonDivergence             // learner: a commit is not for the oldest proposal
	ReasonCannotTruncate         // learner: the log does not hold the place to truncate at
	ReasonFull                   // leader: its disk is full, and the others can go on without it
	ReasonDiverged               // the tree is not that of the transactions
	ReasonMasterBehind           // observer: its master has less than the observer already has
	ReasonMasterJudges           // observer: its tree differs, and the leader has to judge whose is wrong

	reasons
)

var reasonNames = [reasons]string{
	"none", "stopped", "no quorum for an epoch", "no quorum of ACKEPOCH", "no quorum of NEWLEADER acks",
	"quorum lost", "a later epoch is promised", "counter used up", "link lost", "leader silent", "old leader", "illegal message",
	"gap in proposals", "commit of another proposal", "cannot truncate", "disk full",
	"tree differs from its transactions", "observer master is behind", "tree differs, asks the leader",
}

// String describes the reason for people.
func (r Reason) String() string { return reasonNames[r] }

var effectNames = [effectKinds]string{
	"append", "sync", "accepted", "current", "truncate", "save-snapshot", "read-log", "load-snapshot",
	"send-snapshot", "deliver", "connect", "send", "close", "SERVE", "activate", "LEAVE", "look", "request",
	"touch", "revalidate", "revalidated", "synced",
}

// FormatZxid prints epoch and counter as traces show them: 1.4.
func FormatZxid(z zk.Zxid) string { return fmt.Sprintf("%d.%d", z.Epoch(), z.Counter()) }

// String is the effect as a line of a trace.
func (e *Effect) String() string {
	name := effectNames[e.Kind]
	switch e.Kind {
	case EffectAppend, EffectDeliver:
		return name + " " + FormatZxid(e.Record.Zxid)
	case EffectSync:
		return fmt.Sprintf("%s #%d", name, e.Ticket)
	case EffectSetAccepted, EffectSetCurrent:
		return fmt.Sprintf("%s=%d #%d", name, e.Epoch, e.Ticket)
	case EffectTruncate, EffectSaveSnapshot:
		return fmt.Sprintf("%s %s #%d", name, FormatZxid(e.Zxid), e.Ticket)
	case EffectReadLog:
		return fmt.Sprintf("%s %s to %s for link %d", name, FormatZxid(e.Zxid), FormatZxid(e.To), e.Link)
	case EffectSendSnapshot, EffectLoadSnapshot:
		return fmt.Sprintf("%s %s link %d", name, FormatZxid(e.Zxid), e.Link)
	case EffectConnect:
		if e.Master {
			name += " for observers"
		}
		return fmt.Sprintf("%s to %d", name, e.Server)
	case EffectSend:
		return fmt.Sprintf("link %d <- %s", e.Link, e.Message.String())
	case EffectClose, EffectRequest, EffectTouch, EffectRevalidate:
		return fmt.Sprintf("%s link %d", name, e.Link)
	case EffectServe:
		return fmt.Sprintf("%s epoch %d", name, e.Epoch)
	case EffectActivate:
		return fmt.Sprintf("%s %s leader %d", name, FormatZxid(e.Zxid), e.Server)
	case EffectLeave:
		return leaveText(e)
	}
	return name
}

func leaveText(e *Effect) string {
	text := "LEAVE: " + e.Reason.String()
	if e.Reload {
		text += ", reload from disk"
	}
	return text
}

// String is the message as a line of a trace.
func (m *Message) String() string {
	var b strings.Builder
	b.WriteString(m.Kind.String())
	switch m.Kind {
	case KindFollowerInfo, KindObserverInfo:
		fmt.Fprintf(&b, " server=%d accepted=%d", m.Hello.Server, m.epochOf())
	case KindLeaderInfo, KindNewLeader:
		fmt.Fprintf(&b, " epoch=%d", m.epochOf())
	case KindAckEpoch:
		fmt.Fprintf(&b, " last=%s current=%d", FormatZxid(m.Zxid), m.Epoch)
	case KindUpToDate, KindSync, KindRequest, KindRevalidate:
	default:
		if m.Kind == KindPing && m.Zxid < pingBusy {
			b.WriteString(" same " + FormatZxid(PingSame(m.Zxid)))
			break
		}
		b.WriteString(" " + FormatZxid(m.Zxid))
	}
	return b.String()
}
