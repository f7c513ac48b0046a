package session

import (
	"crypto/subtle"
	"encoding/binary"

	"github.com/conclave-project/conclave/zk"
)

// PasswordOf derives a session's password from its id. It does not keep out anybody who knows
// the derivation. It must be the same on every server, including Apache's, so that sessions can
// move. (ZooKeeper: java.util.Random seeded with the id and a constant.)
func PasswordOf(id zk.SessionID) zk.Password {
	const (
		secret     = 0xb3415c00
		multiplier = 0x5deece66d
		mask       = 1<<48 - 1
	)
	state := (uint64(id) ^ secret ^ multiplier) & mask
	var p zk.Password
	for i := 0; i < zk.PasswordBytes; i += 4 {
		state = (state*multiplier + 0xb) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(state>>16))
	}
	return p
}

// PasswordMatches compares a password in constant time.
func PasswordMatches(id zk.SessionID, password []byte) bool {
	want := PasswordOf(id)
	return id != 0 && subtle.ConstantTimeCompare(want[:], password) == 1
}
