package zab

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// LinkID names one connection between two servers, for the life of the process.
// A server that comes back has a new link, so that late frames of the old one
// cannot be mistaken (ZOOKEEPER-4712 is of this family). 0 is no link.
type LinkID uint64

// Ticket names a disk operation. Tickets grow; a completion stands for all
// operations up to its ticket.
type Ticket uint64

// Record is a transaction: its place in the order and its bytes.
type Record struct {
	Zxid    zk.Zxid
	Payload []byte
}

// EventKind says what an event is.
type EventKind uint8

// The kinds of events, and which fields each uses.
const (
	EventTick        EventKind = iota // time has passed
	EventElected                      // an election has ended: Server leads, and had a history of at least Epoch and Record.Zxid
	EventLinkUp                       // a connection: Link; Outgoing if Connect made it, Observers if it came to the port for observers
	EventLinkDown                     // it is gone, or Connect failed (Link 0)
	EventReceive                      // Link, Message
	EventDone                         // the disk has done everything up to Ticket
	EventFailed                       // the log cannot be cut as Truncate said: Ticket
	EventLogRead                      // answer to ReadLog: Link, Records; More if the log goes on after them; OK false if they cannot be had
	EventPropose                      // the leader's replica has decided Record; Config if it is a reconfig
	EventForward                      // a client of this learner, or of the observer of Link, wants Request decided
	EventRevalidate                   // a client came to this learner, or to the observer of Link: Session, TimeoutMs
	EventRevalidated                  // the answer to a learner's: Link, Session, TimeoutMs, OK
	EventTouched                      // a learner has heartbeats that should not wait for the next ping
	EventSync                         // somebody wants a sync: Link, 0 for the leader's own client
	EventConfig                       // Config is in force if OK, else proposed: its record is in the log
	EventStop                         // the server leaves its role: it shuts down, or a reconfig moved it
	EventSpace                        // the disk has space for records if OK, else none
	EventDiverged                     // a transaction's digest is not that of the tree
	EventMoves                        // bytes that waited have gone out, or those of a snapshot come in, on Link
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

// Config is one configuration of the ensemble, as far as Zab cares. Its version
// is the zxid of the reconfig that made it, 0 for that of the first start.
type Config struct {
	Version int64
	Quorum  quorum.Set
	Text    []byte // what NEWLEADER carries
}
