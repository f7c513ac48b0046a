package clientsession

import "github.com/conclave-project/conclave/zk"

// EventKind says what happened.
type EventKind uint8

// The events. Those of a connection have its number in Conn; events of a connection that
// was already dropped are ignored.
const (
	Tick     EventKind = iota // time has passed, see Machine.WakeMs
	Resolved                  // Addresses are those of the newest list of servers; Found if all names were found
	Dialed                    // Conn is open
	Greeted                   // Conn: the server answered the handshake with Greeting
	Replied                   // Conn: a reply came, with Xid, Zxid and Code
	Notified                  // Conn: a notification came, in Watched
	Flushed                   // Conn: everything sent so far was handed to the socket
	Lost                      // Conn could not be opened or has ended, by Cause
	Refused                   // Conn: the server does not accept the proof of who the client is
	Probed                    // the server at Addresses[0] is read-write if Found
	Submit                    // Call is to be sent
	Cancel                    // nobody waits for Call any more
	Unwatch                   // nobody wants Watch any more
	Reseat                    // the list of servers has changed: resolve it again
	Close                     // end the session; Call is a closeSession request
	Detach                    // end without closing the session
	kindCount
)

// Event is one thing that happened. The comment of its kind says which fields are used.
type Event struct {
	Kind EventKind
	Conn int64

	Addresses []string
	Found     bool
	Greeting  Greeting
	Xid       zk.Xid
	Zxid      zk.Zxid
	Code      zk.Code
	Watched   zk.Event
	Call      *Call
	Watch     *Watch
	Cause     error
}

// Greeting is the server's side of the handshake. All fields are zero if the session was
// refused.
type Greeting struct {
	TimeoutMs int32
	Session   zk.SessionID
	Password  zk.Password
	ReadOnly  bool
}

// EffectKind says what to do.
type EffectKind uint8

// The effects.
const (
	Resolve    EffectKind = iota // look up the names of the newest list of servers, answer with Resolved
	Dial                         // open Conn to Address within WaitMs, answer with Dialed or Lost
	Greet                        // send Greeting's fields, and LastZxid, as the handshake of Conn
	Send                         // send Request on Conn
	Drop                         // close Conn, or stop dialling it
	Complete                     // Call has ended: with a reply (Code), or by Err, with Outcome
	Notify                       // tell Watch of Watched
	EndWatch                     // Watch has ended, by Err
	EnterState                   // the session's state is now State, because of Err
	Probe                        // ask the server at Address whether it is read-write (isro)
)

// Effect is one thing to do. The comment of its kind says which fields are used.
type Effect struct {
	Kind    EffectKind
	Conn    int64
	Address string
	WaitMs  int64

	Greeting Greeting // TimeoutMs is the requested one; ReadOnly: a read-only server is acceptable
	LastZxid zk.Zxid
	Request  *zk.Request
	Call     *Call
	Replied  bool // Complete: the server has answered; Code and Zxid are its answer
	Code     zk.Code
	Zxid     zk.Zxid
	Outcome  Outcome
	Oldest   bool // Complete: of the calls that end with a lost connection, the first to be answered
	Err      error
	Watch    *Watch
	Watched  zk.Event
	State    State
}

// State is what a program is told about its session.
type State uint8

// The states. Lost, AuthFailed and Closed are final.
const (
	Connecting State = iota // no server has been reached yet
	Connected
	ReadOnly   // connected to a server that is partitioned from its quorum
	Suspended  // not connected; the session may live on
	LostState  // the session has expired, or must be assumed to have expired
	AuthFailed // a credential was refused
	Closed     // closed or detached by this program
)

var stateNames = [...]string{"connecting", "connected", "read-only", "suspended", "lost", "auth failed", "closed"}

// String returns the state as text.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown state"
}

// Final reports whether s is never left.
func (s State) Final() bool { return s >= LostState }
