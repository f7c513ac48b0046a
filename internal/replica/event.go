package replica

import (
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// EventKind says what an event is.
type EventKind uint8

// The kinds of events, and which fields each uses.
const (
	EventConnect      EventKind = iota // a handshake: Conn, Connect, Identities
	EventRequest                       // a request: Conn, Request, Body, Identities, Code if it cannot be decoded, Unnumbered if it gets no zxid then though it is a multi; Own: see Clients.Reached
	EventAuth                          // an auth packet was accepted, or a token of SASL: Conn, Request (its Data is the answer to a token), Identities (all of them now)
	EventIdentities                    // a certificate proves something else now: Conn, Identities (all of them now)
	EventTouch                         // a heartbeat: Conn
	EventDisconnect                    // the connection is gone: Conn
	EventTick                          // time has passed
	EventPaused                        // this process was paused, see Paused: the first event of the step after it
	EventDone                          // the disk has done everything up to Ticket; State if the log was truncated
	EventFailed                        // the log cannot be cut where the leader said: Ticket
	EventRecovered                     // what DiskReload asked for: Recovered
	EventDisk                          // the disk has space, or not: Full
	EventNotification                  // a vote came: Server, Notification
	EventLinkUp                        // a connection between servers: Link; Outgoing if this one made it, Observers if it came to the port for observers
	EventLinkDown                      // it is gone, or could not be made (Link 0)
	EventMessage                       // Link, Message
	EventLoaded                        // the snapshot after a SNAP has been read: Link, State, which is not finished
	EventMoves                         // bytes that waited have gone out, or those of a snapshot come in, on Link
	EventLogRead                       // answer to zab.EffectReadLog: Link, Records, More; OK false if they cannot be had

	eventKinds
)

// OfRequests reports whether an event has its place among the requests of its connection. Others may
// pass these.
func (k EventKind) OfRequests() bool {
	switch k {
	case EventRequest, EventAuth, EventIdentities, EventDisconnect:
		return true
	}
	return false
}

// Event is something that has happened. A request in an event, and all it
// points at, belongs to the replica until it is delivered; so do messages.
type Event struct {
	Kind         EventKind
	Full         bool
	OK           bool
	Outgoing     bool
	Observers    bool
	Own          bool
	Unnumbered   bool
	Code         zk.Code
	Spans        int32 // for how many records Message stands, an ACK or a COMMIT
	Conn         session.ConnID
	Ticket       zab.Ticket
	Link         zab.LinkID
	Server       quorum.ID
	Request      *zk.Request
	Body         []byte // of the request, without its header: what a leader is sent
	Connect      *wire.ConnectRequest
	Identities   []zk.Identity
	Notification *fle.Notification
	Message      *zab.Message
	Records      []zab.Record
	More         bool
	State        *State
	Recovered    *Recovered
}

// Recovered is what a server has found on its disk.
type Recovered struct {
	State  *State
	Stored zab.Stored
	// Untrusted says that the directory is empty where it should not be, or lacks the
	// end of its log that was synced: the server votes for nobody until a leader has
	// sent it everything (ZOOKEEPER-261).
	Untrusted bool
	// Fuzzy says that the tree may be ahead of the log: its snapshot was taken
	// while the disk was behind what a quorum had committed.
	Fuzzy bool
	// WrongTree says that the digest of the tree is not that of the last
	// transaction that has one, which is news: the disk has lost something.
	WrongTree bool
	// Differs says that it is none: the server found the same before (DiskNoteDiffers), and
	// knows as little as then whether its tree is wrong or its leader's.
	Differs bool
	// Alone says that no ensemble has ever had this history, as far as the server knows.
	Alone bool
}
