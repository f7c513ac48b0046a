package zk

// TxnHeader says whose a transaction is and where it stands in the order.
type TxnHeader struct {
	Session SessionID
	Cxid    Xid // the client's number of the request, 0 if a server made it
	Zxid    Zxid
	Time    int64 // ms since 1970 when it was decided; ctime and mtime come from here
	Op      Op
}

// Txn is a decided, deterministic change. Versions are the resulting versions, and sequence
// numbers are already in the path, so applying it needs no decision.
type Txn struct {
	Op      Op
	Path    string
	Data    []byte // create*, setData; nil is null
	ACL     []ACL  // create*, setACL
	Version int32  // setData, setACL, check, reconfig: the znode's new version

	ParentCversion int32 // create*: the parent's new stored cversion, -1 if unknown (before 3.4)
	Ephemeral      bool  // create, create2: owned by the header's session
	TTL            int64 // createTTL, ms

	TimeoutMs int32    // createSession
	Code      Code     // error
	Paths     []string // closeSession: the ephemerals that go with it
	HasPaths  bool     // closeSession: Paths was given (3.6 and later)
	Sub       []Txn    // multi
}

// Digest is a checksum of the whole tree after a transaction. See tree.Digest.
type Digest struct {
	Version int32 // 2; 0 means there is none
	Value   uint64
}

// DigestVersion is the only version of the digest in use since 3.6.
const DigestVersion = 2
