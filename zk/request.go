package zk

// Request is what a client asks for. One type serves every operation; the comment of each field
// says which operations use it. Byte slices may alias the frame they were decoded from: a caller
// that keeps a Request longer than its frame must copy them.
type Request struct {
	Op   Op
	Xid  Xid
	Path string // all with a path; sync; getEphemerals (prefix)

	Data    []byte      // create*, setData; auth (credential), sasl (token), getChildrenPage (cursor); nil is null
	ACL     []ACL       // create*, setACL
	Version int32       // delete, setData, setACL, check, -1 is any; getChildrenPage (limit)
	Mode    CreateMode  // create*
	TTL     int64       // createTTL, ms
	Watch   bool        // exists, getData, getChildren, getChildren2
	Watcher WatcherType // checkWatches, removeWatches
	Watches WatchMode   // addWatch

	Ops []Request // multi, multiRead

	SetWatches *SetWatches // setWatches, setWatches2
	Reconfig   *Reconfig   // reconfig
	Scheme     string      // auth
}

// SetWatches is the body of setWatches and setWatches2: the watches a client
// held when it lost its connection.
type SetWatches struct {
	RelativeZxid Zxid // last zxid the client saw
	Data         []string
	Exist        []string
	Child        []string
	Persistent   []string // setWatches2
	Recursive    []string // setWatches2
}

// Reconfig is the body of a reconfig request. A nil string is null on the wire.
type Reconfig struct {
	Joining    *string
	Leaving    *string
	NewMembers *string // if not nil, it replaces everything
	ConfigID   int64   // -1, or the version that the change is based on
}

// Result is what an operation returns. Which fields are set follows from
// the operation; a Code other than OK excludes all others, except for a multi.
type Result struct {
	Op       Op // the operation; in a multi, also the type of its entry
	Code     Code
	Path     string
	Data     []byte // nil is null
	Stat     Stat
	ACL      []ACL
	Children []string // getChildren*, getEphemerals
	Count    int32    // getAllChildrenNumber
	Sub      []Result // multi, multiRead
	Who      []Identity
}
