package session

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/conclave-project/conclave/zk"
)

// IDs gives sessions their ids: the server in the top byte, as ZooKeeper has it, and 56 bits
// that nobody can tell who does not know the key. ZooKeeper's ids count up from the time of
// the start, and the password of a session follows from its id: there any client can tell
// those of the others, take their sessions over, and end them. The stat of an ephemeral
// tells the id of its session still.
type IDs struct {
	server uint8
	sum    [32]byte // key, start and number
}

// NewIDs returns those of a server that starts at a moment of its wall clock.
func NewIDs(server uint8, key [16]byte, startMs int64) *IDs {
	i := &IDs{server: server}
	copy(i.sum[:], key[:])
	binary.BigEndian.PutUint64(i.sum[16:], uint64(startMs))
	return i
}

// Next returns an id that none of the tables has (session-S3).
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
