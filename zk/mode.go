package zk

// CreateMode is the kind of znode to create, as in the flags field of the create requests.
type CreateMode int32

// The create modes, by their numbers on the wire.
const (
	Persistent              CreateMode = 0
	Ephemeral               CreateMode = 1
	PersistentSequential    CreateMode = 2
	EphemeralSequential     CreateMode = 3
	Container               CreateMode = 4
	PersistentTTL           CreateMode = 5
	PersistentSequentialTTL CreateMode = 6
)

// Valid reports whether m is one of the seven modes.
func (m CreateMode) Valid() bool { return m >= Persistent && m <= PersistentSequentialTTL }

// IsSequential reports whether the server appends a counter to the name.
func (m CreateMode) IsSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialTTL
}

// IsEphemeral reports whether the znode is deleted with its session.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// IsTTL reports whether the znode expires.
func (m CreateMode) IsTTL() bool { return m == PersistentTTL || m == PersistentSequentialTTL }

// TTLMax is the longest life of a TTL znode in milliseconds, about 34.8 years.
const TTLMax int64 = 1<<40 - 1

// OwnerKind is what the stored ephemeralOwner of a znode means.
type OwnerKind uint8

// The kinds of owner.
const (
	OwnerNone      OwnerKind = iota // persistent
	OwnerSession                    // ephemeral, the owner is the session id
	OwnerContainer                  // container, deleted once its last child is gone
	OwnerTTL                        // TTL, deleted when it has not changed for its TTL
)

// ContainerOwner is the stored owner of a container.
const ContainerOwner int64 = -1 << 63

const (
	ttlMark     uint64 = 0xff << 56
	ttlTypeMask uint64 = 0xffff << 40
)

// TTLOwner returns the stored owner of a TTL znode; ttlMs is 1 to TTLMax.
func TTLOwner(ttlMs int64) int64 { return int64(ttlMark | uint64(ttlMs)&uint64(TTLMax)) }

// TTLOf returns the TTL in milliseconds that a stored owner of kind OwnerTTL holds.
func TTLOf(owner int64) int64 { return owner & TTLMax }

// KindOfOwner returns the kind of a stored owner. With extended types disabled the
// owner of a TTL znode is an ordinary session id, as in ZooKeeper.
func KindOfOwner(owner int64, extended bool) OwnerKind {
	switch {
	case owner == 0:
		return OwnerNone
	case owner == ContainerOwner:
		return OwnerContainer
	case extended && uint64(owner)&ttlMark == ttlMark && uint64(owner)&ttlTypeMask == 0:
		return OwnerTTL
	}
	return OwnerSession
}
