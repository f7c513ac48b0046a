package zk

import "strconv"

// SessionID names a session for its whole life, on every server. The top byte
// is the id of the server that created it. Zero means no session.
type SessionID int64

// String prints s as ZooKeeper's tools do: 0x and lower-case hex.
func (s SessionID) String() string { return "0x" + strconv.FormatUint(uint64(s), 16) }

// PasswordBytes is the length of every session password.
const PasswordBytes = 16

// Password is what a client presents to attach to its session again.
type Password [PasswordBytes]byte

// Xid is the number that a client gives to a request; the reply carries the same number.
type Xid = int32

// The xids with a meaning of their own.
const (
	XidNotification Xid = -1 // server to client: a watch event
	XidPing         Xid = -2
	XidAuth         Xid = -4
	XidSetWatches   Xid = -8
)
