package session

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/conclave-project/conclave/zk"
)

// IDs gives sessions their ids: the server is in the top byte, as in ZooKeeper, and the other
// 56 bits cannot be guessed without the key. ZooKeeper's ids count up from the time of the
// start, and the password of a session follows from its id, so any client can compute the ids
// of other sessions, take the sessions over, and end them. The stat of an ephemeral still
// reveals the id of its session.
type IDs struct {
	server uint8
	sum    [32]byte // key, start and number
}

// NewIDs returns the IDs of a server that starts at a moment of its wall clock.
func NewIDs(server uint8, key [16]byte, startMs int64) *IDs {
	i := &IDs{server: server}
	copy(i.sum[:], key[:])
	binary.BigEndian.PutUint64(i.sum[16:], uint64(startMs))
	return i
}

// Next returns an id that is in none of the tables (session-S3).
func (i *IDs) Next(tables ...*Table) zk.SessionID {
next:
	for {
		binary.BigEndian.PutUint64(i.sum[24:], binary.BigEndian.Uint64(i.sum[24:])+1)
		sum := sha256.Sum256(i.sum[:])
		id := zk.SessionID(binary.BigEndian.Uint64(sum[:])>>8 | uint64(i.server)<<56)
		if id == 0 || int64(id) == zk.ContainerOwner {
			continue
		}
		for _, t := range tables {
			if t.Get(id) != nil {
				continue next
			}
		}
		return id
	}
}
