package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Clients is told, in order, what goes to the connections. Calls about changes
// come while readers are kept out of the tree (R4): what a result points at may
// change when the call returns.
type Clients interface {
	// Connected answers a handshake. A refused one is all zero and is followed
	// by Close.
	Connected(session.ConnID, *wire.ConnectResponse)
	// Reply answers a request; result is nil if there is no body.
	Reply(session.ConnID, wire.ReplyHeader, *zk.Result)
	// Notify sends a watch event.
	Notify(session.ConnID, *zk.Event)
	// Close closes the connection once everything before has been sent.
	Close(session.ConnID)
}

// Record is one transaction to be stored.
type Record struct {
	Zxid    zk.Zxid
	Payload []byte
}

// Effects are what a Step wants done: the records must be appended and synced
// in order, and their sync told by EventSynced.
type Effects struct {
	Append    []Record
	OverQuota []string // paths whose quota was exceeded, to be told to the operator
}

// reset starts a new step. Payloads are given away with the records: the disk
// writes them while the next step goes on.
func (e *Effects) reset() { e.Append, e.OverQuota = nil, e.OverQuota[:0] }
