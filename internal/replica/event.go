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

// The kinds of events, and the fields that each uses.
const (
	EventConnect      EventKind = iota // a handshake: Conn, Connect, Identities
	EventRequest                       // a request: Conn, Request, Body, Identities; Code if it cannot be decoded, with Unnumbered if it then gets no zxid although it is a multi; Own: see Clients.Reached
	EventAuth                          // an auth packet, or a SASL token, was accepted: Conn, Request (its Data is the answer to a token), Identities (all of them now)
	EventIdentities                    // a certificate now proves other identities: Conn, Identities (all of them now)
	EventTouch                         // a heartbeat: Conn
	EventDisconnect                    // the connection is gone: Conn
	EventTick                          // time has passed
	EventPaused                        // this process was paused, see Paused: the first event of the step after the pause
	EventDone                          // the disk has done everything up to Ticket; State if the log was truncated
	EventFailed                        // the log cannot be truncated where the leader demanded: Ticket
	EventRecovered                     // the answer to DiskReload: Recovered
	EventDisk                          // the disk has space, or not: Full
	EventNotification                  // a vote arrived: Server, Notification
	EventLinkUp                        // a connection between servers is up: Link; Outgoing if this server made it, Observers if it came to the port for observers
	EventLinkDown                      // a connection is gone, or could not be made (Link 0)
	EventMessage                       // a message from another server: Link, Message
	EventLoaded                        // the snapshot after a SNAP has been read: Link, State, which is not finished
	EventMoves                         // progress on Link: waiting bytes have gone out, or bytes of a snapshot have come in
	EventLogRead                       // answer to zab.EffectReadLog: Link, Records, More; OK false if they cannot be read

	eventKinds
)

// OfRequests reports whether events of a kind keep their place among the requests of their
// connection. Events of other kinds may overtake these.
func (k EventKind) OfRequests() bool {
	switch k {
	case EventRequest, EventAuth, EventIdentities, EventDisconnect:
		return true
	}
	return false
}

// Event is something that has happened. A request in an event, and everything it points at,
// belongs to the replica until the request is delivered; the same holds for messages.
type Event struct {
	Kind         EventKind
	Full         bool
	OK           bool
	Outgoing     bool
	Observers    bool
	Own          bool
	Unnumbered   bool
	Code         zk.Code
	Spans        int32 // how many records Message covers, for an ACK or a COMMIT
	Conn         session.ConnID
	Ticket       zab.Ticket
	Link         zab.LinkID
	Server       quorum.ID
	Request      *zk.Request
	Body         []byte // of the request, without its header: it is forwarded to a leader as it is
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
	// Untrusted is set if the directory is empty where it should not be, or lacks the end of
	// its log that was synced: the server votes for nobody until a leader has sent it
	// everything (ZOOKEEPER-261).
	Untrusted bool
	// Fuzzy is set if the tree may be ahead of the log: its snapshot was taken while the disk
	// was behind what a quorum had committed.
	Fuzzy bool
	// WrongTree is set if the digest of the tree is not that of the last transaction that has
	// one, and this was not known before: the disk has lost something.
	WrongTree bool
	// Differs is set if it was known: the server found the same before (DiskNoteDiffers), and
	// still does not know whether its own tree is wrong or its leader's.
	Differs bool
	// Alone is set if, as far as the server knows, no ensemble has ever had this history.
	Alone bool
}
