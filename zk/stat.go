package zk

// Stat is what the protocol tells a client about a znode. Times are
// milliseconds since 1970 on the leader's wall clock.
type Stat struct {
	Czxid          Zxid  // transaction that created the znode
	Mzxid          Zxid  // transaction that last set its data
	Ctime          int64 // ms, when it was created
	Mtime          int64 // ms, when its data was last set
	Version        int32 // changes of the data
	Cversion       int32 // creations and deletions among its children
	Aversion       int32 // changes of the ACL
	EphemeralOwner int64 // session that owns an ephemeral, else 0
	DataLength     int32 // bytes
	NumChildren    int32
	Pzxid          Zxid // transaction that last created or deleted a child
}

// StatPersisted is the part of a znode's numbers that is stored. Unlike in
// Stat, Cversion counts creations only and EphemeralOwner is as stored,
// which also marks containers and TTL znodes.
type StatPersisted struct {
	Czxid          Zxid
	Mzxid          Zxid
	Ctime          int64
	Mtime          int64
	Version        int32
	Cversion       int32
	Aversion       int32
	EphemeralOwner int64
	Pzxid          Zxid
}

// Client returns the Stat that a client sees: its Cversion counts creations and deletions
// (2*creations - children), and its EphemeralOwner is zero for containers and TTL znodes.
// extended is true if TTL znodes are enabled.
func (s *StatPersisted) Client(dataLength, numChildren int32, extended bool) Stat {
	owner := int64(0)
	if KindOfOwner(s.EphemeralOwner, extended) == OwnerSession {
		owner = s.EphemeralOwner
	}
	return Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Ctime: s.Ctime, Mtime: s.Mtime,
		Version: s.Version, Cversion: 2*s.Cversion - numChildren, Aversion: s.Aversion,
		EphemeralOwner: owner, DataLength: dataLength, NumChildren: numChildren, Pzxid: s.Pzxid,
	}
}
