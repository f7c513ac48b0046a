package replica

import (
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Clients is told, in order, what goes to the connections. Calls about changes
// come while readers are kept out of the tree (replica-R4): what a result points at may
// change when the call returns.
type Clients interface {
	// Connected answers a handshake. A refused one is all zero and is followed
	// by Close.
	Connected(session.ConnID, *wire.ConnectResponse)
	// Reply answers a request; result is nil if there is no body.
	Reply(session.ConnID, wire.ReplyHeader, *zk.Result)
	// Reached tells a connection that its turn has come for a read that it answers by
	// itself (Event.Own): what it must see is in the tree.
	Reached(session.ConnID)
	// Notify sends a watch event to connections, some of which may have gone. It keeps
	// neither.
	Notify([]session.ConnID, *zk.Event)
	// Notified comes when a transaction has told all its events, before readers see it:
	// what a connection answers by itself from then on must follow them.
	Notified()
	// Close closes the connection once everything before has been sent.
	Close(session.ConnID)
}

// DiskKind says what the disk is to do.
type DiskKind uint8

// What a disk does, and which fields of DiskOp it uses. The operations are
// carried out strictly in order: after a crash a prefix of them is there.
const (
	DiskAppend       DiskKind = iota // the record goes to the log: Zxid, Payload
	DiskSync                         // everything appended becomes durable: Ticket
	DiskSetAccepted                  // the accepted epoch becomes durable: Epoch, Ticket
	DiskSetCurrent                   // the current epoch becomes durable: Epoch, Ticket
	DiskTruncate                     // the log is truncated after Zxid and read again: Ticket
	DiskSaveSnapshot                 // the tree as it is becomes a durable snapshot of Zxid that replaces the log: Ticket
	DiskReload                       // everything is read again, to be told by EventRecovered
	DiskNoteDiffers                  // from Zxid on digests differ from the tree's, for the next start; 0: no more
	DiskEndAlone                     // a quorum of an ensemble has the history
)

// Repeatable reports whether an operation that found no space has changed nothing
// and can be done again: until an epoch's file or a snapshot has its name, nobody
// is promised anything. A log that could not write is of no use any more.
func (k DiskKind) Repeatable() bool {
	switch k {
	case DiskSetAccepted, DiskSetCurrent, DiskSaveSnapshot, DiskReload:
		return true
	}
	return false
}

// DiskOp is one operation of the disk. One EventDone stands for all operations
// up to its ticket, so several syncs in a row may be one.
type DiskOp struct {
	Kind    DiskKind
	Epoch   uint32
	Ticket  zab.Ticket
	Zxid    zk.Zxid
	Payload []byte
}

// OutgoingVote is a notification to a peer. Of several to the same peer that wait
// only the last one matters.
type OutgoingVote struct {
	To           quorum.ID
	Notification fle.Notification
}

// Effects are what a Step wants done, each list in its order. What is sent to
// peers never rests on an operation of the disk of the same step: that is sent
// in the step that learns of its end.
type Effects struct {
	Disk      []DiskOp
	Links     []zab.Effect // connect, send, close, send-snapshot, read-log
	Votes     []OutgoingVote
	Ensembles Ensembles    // what has changed about the configuration
	OverQuota []string     // paths whose quota was exceeded, to be told to the operator
	Left      []zab.Reason // roles that ended in this step, for the log
	Remapped  bool         // Reader.Domains was read again
	Unasked   int          // connections that were closed since there were too many questions about what they may read
	Diverged  []zk.Zxid    // transactions whose digest is not that of the tree, to be told to the operator
	Audited   []Audited    // what clients of this server have changed, or tried to, where Options.Audit asks for it

	asked []*Asked // of Audited that were told, to be used again
}

// askedKept is how many Asked are kept to be used again: about as many as are on their way.
const askedKept = 4096

// anAsked returns one that is empty.
func (e *Effects) anAsked() *Asked {
	n := len(e.asked)
	if n == 0 {
		return new(Asked)
	}
	a := e.asked[n-1]
	e.asked = e.asked[:n-1]
	return a
}

// reset starts a new step. Payloads are given away with the records: the disk
// writes them while the next step goes on.
func (e *Effects) reset() {
	e.Ensembles, e.Remapped, e.Unasked = Ensembles{}, false, 0
	clear(e.Disk)
	clear(e.Links)
	clear(e.Votes)
	e.Disk, e.Links, e.Votes = e.Disk[:0], e.Links[:0], e.Votes[:0]
	for i := range e.Audited {
		if a := e.Audited[i].Asked; a != nil && len(e.asked) < askedKept {
			*a = Asked{}
			e.asked = append(e.asked, a)
		}
	}
	clear(e.Audited)
	e.Audited = e.Audited[:0]
	e.OverQuota, e.Left, e.Diverged = e.OverQuota[:0], e.Left[:0], e.Diverged[:0]
}
