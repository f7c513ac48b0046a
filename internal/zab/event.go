package zab

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// LinkID names one connection between two servers for the life of the process. A server that
// reconnects has a new link, so late frames of the old link cannot be mistaken for frames of
// the new one (a fault of the kind of ZOOKEEPER-4712). 0 is no link.
type LinkID uint64

// Ticket names a disk operation. Tickets grow; a completion covers all operations up to its
// ticket.
type Ticket uint64

// Record is a transaction: its place in the order and its bytes.
type Record struct {
	Zxid    zk.Zxid
	Payload []byte
}

// EventKind says what an event is.
type EventKind uint8

// The kinds of events, and the fields that each uses.
const (
	EventTick        EventKind = iota // time has passed
	EventElected                      // an election has ended: Server leads, and had a history up to at least Epoch and Record.Zxid
	EventLinkUp                       // a connection is up: Link; Outgoing if Connect made it, Observers if it came to the port for observers
	EventLinkDown                     // a connection is gone, or Connect failed (Link 0)
	EventReceive                      // Link, Message
	EventDone                         // the disk has done everything up to Ticket
	EventFailed                       // the log cannot be truncated as EffectTruncate demanded: Ticket
	EventLogRead                      // answer to EffectReadLog: Link, Records; More if the log goes on after them; OK false if they cannot be read
	EventPropose                      // the leader's replica has decided Record; Config if it is a reconfig
	EventForward                      // a client of this learner, or of the observer of Link, wants Request decided
	EventRevalidate                   // a client came to this learner, or to the observer of Link: Session, TimeoutMs
	EventRevalidated                  // the answer to a learner's revalidation: Link, Session, TimeoutMs, OK
	EventTouched                      // a learner has heartbeats that should not wait for the next ping
	EventSync                         // a client wants a sync: Link, 0 for the leader's own client
	EventConfig                       // Config is in force if OK, else proposed: its record is in the log
	EventStop                         // the server leaves its role: it shuts down, or a reconfig moved it
	EventSpace                        // the disk has space for records if OK, else none
	EventDiverged                     // a transaction's digest is not that of the tree
	EventMoves                        // progress on Link: waiting bytes have gone out, or bytes of a snapshot have come in
	EventOracle                       // OK: this server may decide alone, see oracle.go

	eventKinds
)

// Event is something that has happened.
type Event struct {
	Kind      EventKind
	Outgoing  bool
	Observers bool
	OK        bool
	TimeoutMs int32
	Link      LinkID
	Server    quorum.ID
	Ticket    Ticket
	Session   zk.SessionID
	Epoch     int64
	Record    Record
	Records   []Record
	More      bool
	Config    *Config
	Request   *Request
	Message   *Message
}

// Config is one configuration of the ensemble, as far as Zab needs it. Its version is the zxid
// of the reconfig that made it; 0 for the configuration of the first start.
type Config struct {
	Version int64
	Quorum  quorum.Set
	Text    []byte // the text that NEWLEADER carries
}
