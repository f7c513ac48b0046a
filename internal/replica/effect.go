package replica

import (
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Clients receives, in order, what is sent to the connections. Calls about changes are made
// while readers are kept out of the tree (replica-R4): what a result points at may change when
// the call returns.
type Clients interface {
	// Connected answers a handshake. The response to a refused one is all zero, and Close
	// follows.
	Connected(session.ConnID, *wire.ConnectResponse)
	// Reply answers a request; result is nil if there is no body.
	Reply(session.ConnID, wire.ReplyHeader, *zk.Result)
	// Reached tells a connection that it may now answer a read that it answers by itself
	// (Event.Own): what the read must see is in the tree.
	Reached(session.ConnID)
	// Notify sends a watch event to connections, some of which may have gone. It must keep
	// neither argument.
	Notify([]session.ConnID, *zk.Event)
	// Notified is called when all events of a transaction have been sent, before readers see
	// it: what a connection answers by itself from then on must follow the events.
	Notified()
	// Close closes the connection once everything sent before has left.
	Close(session.ConnID)
}

// DiskKind says what the disk must do.
type DiskKind uint8

// The operations of a disk, and the fields of DiskOp that each uses. They are carried out
// strictly in order: after a crash a prefix of them is on disk.
const (
	DiskAppend       DiskKind = iota // the record goes to the log: Zxid, Payload
	DiskSync                         // everything appended becomes durable: Ticket
	DiskSetAccepted                  // the accepted epoch becomes durable: Epoch, Ticket
	DiskSetCurrent                   // the current epoch becomes durable: Epoch, Ticket
	DiskTruncate                     // the log is truncated after Zxid and read again: Ticket
	DiskSaveSnapshot                 // the tree as it is becomes a durable snapshot of Zxid that replaces the log: Ticket
	DiskReload                       // everything is read again; the answer is EventRecovered
	DiskNoteDiffers                  // for the next start: from Zxid on digests differ from the tree's; 0: no longer
	DiskEndAlone                     // a quorum of an ensemble has the history
)

// Repeatable reports whether an operation that found no space has changed nothing and can be
// repeated. Until the file of an epoch or a snapshot has its final name, nobody has been
// promised anything. A log that could not write is not usable any more.
func (k DiskKind) Repeatable() bool {
	switch k {
	case DiskSetAccepted, DiskSetCurrent, DiskSaveSnapshot, DiskReload:
		return true
	}
	return false
}

// DiskOp is one operation of the disk. One EventDone covers all operations up to its ticket, so
// several syncs in a row may become one.
type DiskOp struct {
	Kind    DiskKind
	Epoch   uint32
	Ticket  zab.Ticket
	Zxid    zk.Zxid
	Payload []byte
}

// OutgoingVote is a notification to a peer. Of several that wait for the same peer only the
// last one matters.
type OutgoingVote struct {
	To           quorum.ID
	Notification fle.Notification
}

// Effects are what a Step wants done, each list in its order. What is sent to peers never
// depends on a disk operation of the same step: it is sent in the step that learns that the
// operation is done.
type Effects struct {
	Disk      []DiskOp
	Links     []zab.Effect // connect, send, close, send-snapshot, read-log
	Votes     []OutgoingVote
	Ensembles Ensembles       // what has changed about the configuration
	OverQuota []string        // paths whose quota was exceeded, to report to the operator
	Left      []zab.Reason    // roles that ended in this step, for the log
	Remapped  bool            // Reader.Domains was read again in this step
	Unasked   int             // connections that were closed because too many look-ups were needed to find what they may read
	Expired   []session.Lease // sessions that this server has found to have expired, up to ExpiredMax of them, for the log
	Unnamed   int             // how many more have expired
	Diverged  []zk.Zxid       // transactions whose digest is not that of the tree, to report to the operator
	Audited   []Audited       // with Options.Audit: what clients of this server have changed, or tried to

	asked []*Asked // from Audited that was reported, to be used again
}

// askedKept is how many Asked are kept to be used again: about as many as are on their way at a
// time.
const askedKept = 4096

// anAsked returns an empty Asked.
func (e *Effects) anAsked() *Asked {
	n := len(e.asked)
	if n == 0 {
		return new(Asked)
	}
	a := e.asked[n-1]
	e.asked = e.asked[:n-1]
	return a
}

// reset starts a new step. Payloads now belong to the disk, which writes them while the next
// step goes on.
func (e *Effects) reset() {
	e.Ensembles, e.Expired, e.Unnamed, e.Remapped, e.Unasked = Ensembles{}, e.Expired[:0], 0, false, 0
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
