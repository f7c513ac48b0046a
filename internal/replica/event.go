package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// EventKind says what an event is.
type EventKind uint8

// The kinds of events, and which fields each uses.
const (
	EventConnect    EventKind = iota // a handshake: Conn, Connect, Identities
	EventRequest                     // a request: Conn, Request, Identities, Code if it cannot be decoded
	EventAuth                        // an auth packet was accepted: Conn, Request, Identities (all of them now)
	EventTouch                       // a sign of life: Conn
	EventDisconnect                  // the connection is gone: Conn
	EventTick                        // time has passed
	EventSynced                      // the log is on disk up to Zxid
	EventDisk                        // the disk has room, or not: Full
)

// Event is something that has happened. A request in an event, and all it
// points at, belongs to the replica until it is delivered.
type Event struct {
	Kind       EventKind
	Full       bool
	Code       zk.Code
	Conn       session.ConnID
	Zxid       zk.Zxid
	Request    *zk.Request
	Connect    *wire.ConnectRequest
	Identities []zk.Identity
}
