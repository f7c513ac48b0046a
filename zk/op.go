package zk

import "strconv"

// Op is the kind of a request or of a transaction, by its number on the wire.
type Op int32

// The operations. The numbers are ZooKeeper's, except for that of OpGetChildrenPage.
const (
	OpNotification         Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpGetChildrenPage      Op = 2260 // Conclave's own; ZOOKEEPER-2260 asks for it
	OpCreateSession        Op = -10
	OpCloseSession         Op = -11
	OpError                Op = -1 // a transaction that changes nothing; or the end of a multi
)

var opNames = map[Op]string{
	OpNotification: "notification", OpCreate: "create", OpDelete: "delete", OpExists: "exists",
	OpGetData: "getData", OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL",
	OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2",
	OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig",
	OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpDeleteContainer: "deleteContainer",
	OpCreateTTL: "createTTL", OpMultiRead: "multiRead", OpAuth: "auth",
	OpSetWatches: "setWatches", OpSASL: "sasl", OpGetEphemerals: "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpCreateSession: "createSession",
	OpCloseSession: "closeSession", OpError: "error", OpGetChildrenPage: "getChildrenPage",
}

// String returns the operation's name in the glossary, or its number.
func (o Op) String() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return "op " + strconv.Itoa(int(o))
}

// Known reports whether a client may send o. It may not send operations that only servers use
// (error, createSession, deleteContainer), a check outside a multi, or unknown numbers.
func (o Op) Known() bool {
	switch o {
	case OpCreate, OpDelete, OpExists, OpGetData, OpSetData, OpGetACL, OpSetACL, OpGetChildren, OpSync, OpPing,
		OpGetChildren2, OpMulti, OpCreate2, OpReconfig, OpCheckWatches, OpRemoveWatches, OpCreateContainer,
		OpCreateTTL, OpMultiRead, OpAuth, OpSetWatches, OpSASL, OpGetEphemerals, OpGetAllChildrenNumber,
		OpSetWatches2, OpAddWatch, OpWhoAmI, OpGetChildrenPage, OpCloseSession:
		return true // called three times for each request, hence no map
	}
	return false
}

// IsWrite reports whether o is decided by the leader and becomes a transaction.
func (o Op) IsWrite() bool {
	switch o {
	case OpCreate, OpDelete, OpSetData, OpSetACL, OpMulti, OpCreate2, OpReconfig, OpCheck,
		OpCreateContainer, OpDeleteContainer, OpCreateTTL, OpCreateSession, OpCloseSession:
		return true
	}
	return false
}

// IsCreate reports whether o is one of the four ways to create a znode.
func (o Op) IsCreate() bool {
	return o == OpCreate || o == OpCreate2 || o == OpCreateContainer || o == OpCreateTTL
}
