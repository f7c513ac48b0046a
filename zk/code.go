package zk

import "strconv"

// Code is an error code of the protocol. A Code other than OK is an error: it can be returned,
// wrapped and compared with errors.Is.
type Code int32

// The codes. Those marked local are never sent by a server.
const (
	OK                          Code = 0
	ErrSystem                   Code = -1 // range marker, never sent
	ErrRuntimeInconsistency     Code = -2 // in a multi: operations after the one that failed
	ErrDataInconsistency        Code = -3
	ErrConnectionLoss           Code = -4 // local
	ErrMarshalling              Code = -5
	ErrUnimplemented            Code = -6
	ErrOperationTimeout         Code = -7 // local
	ErrBadArguments             Code = -8
	ErrInvalidState             Code = -9 // local
	ErrUnknownSession           Code = -12
	ErrNewConfigNoQuorum        Code = -13
	ErrReconfigInProgress       Code = -14
	ErrAPI                      Code = -100 // range marker, never sent
	ErrNoNode                   Code = -101
	ErrNoAuth                   Code = -102
	ErrBadVersion               Code = -103
	ErrNoChildrenForEphemerals  Code = -108
	ErrNodeExists               Code = -110
	ErrNotEmpty                 Code = -111
	ErrSessionExpired           Code = -112
	ErrInvalidCallback          Code = -113 // local
	ErrInvalidACL               Code = -114
	ErrAuthFailed               Code = -115
	ErrClosing                  Code = -116 // local
	ErrNothing                  Code = -117 // local
	ErrSessionMoved             Code = -118 // never on the client port: the connection is closed
	ErrNotReadOnly              Code = -119
	ErrEphemeralOnLocalSession  Code = -120
	ErrNoWatcher                Code = -121
	ErrRequestTimeout           Code = -122 // local
	ErrReconfigDisabled         Code = -123
	ErrSessionClosedRequireSASL Code = -124
	ErrQuotaExceeded            Code = -125
	ErrThrottledOp              Code = -127
)

var codeNames = map[Code]string{
	OK: "ok", ErrSystem: "system error", ErrRuntimeInconsistency: "runtime inconsistency",
	ErrDataInconsistency: "data inconsistency", ErrConnectionLoss: "connection lost",
	ErrMarshalling: "request cannot be decoded", ErrUnimplemented: "not supported by this server",
	ErrOperationTimeout: "operation timed out", ErrBadArguments: "bad arguments",
	ErrInvalidState: "invalid state", ErrUnknownSession: "unknown session",
	ErrNewConfigNoQuorum:  "no quorum of the new configuration is connected",
	ErrReconfigInProgress: "another reconfig is in progress", ErrAPI: "api error",
	ErrNoNode: "no such znode", ErrNoAuth: "not authorized", ErrBadVersion: "version does not match",
	ErrNoChildrenForEphemerals: "an ephemeral znode cannot have children",
	ErrNodeExists:              "znode already exists", ErrNotEmpty: "znode has children",
	ErrSessionExpired: "session expired", ErrInvalidCallback: "invalid callback",
	ErrInvalidACL: "invalid acl", ErrAuthFailed: "authentication failed", ErrClosing: "closing",
	ErrNothing: "nothing to do", ErrSessionMoved: "session moved to another server",
	ErrNotReadOnly: "server is read-only", ErrEphemeralOnLocalSession: "ephemeral on a local session",
	ErrNoWatcher: "no such watch", ErrRequestTimeout: "request timed out",
	ErrReconfigDisabled: "reconfig is disabled", ErrSessionClosedRequireSASL: "authentication is required",
	ErrQuotaExceeded: "quota exceeded", ErrThrottledOp: "request was throttled",
}

// Error returns the code's meaning as text.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "error code " + strconv.Itoa(int(c))
}

// Err returns c as an error, nil for OK.
func (c Code) Err() error {
	if c == OK {
		return nil
	}
	return c
}
