//go:build linux

package main

import (
	"encoding/binary"

	"github.com/conclave-project/conclave/zk"
)

// passwordOf derives the password of a session as every ZooKeeper server does: four outputs
// of the JDK's linear congruential generator, least significant byte first. It is
// implemented here again so the test does not rely on the server's own copy.
func passwordOf(id zk.SessionID) zk.Password {
	const (
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
		secret     = 0xB3415C00
	)
	var p zk.Password
	if id == 0 {
		return p
	}
	state := (uint64(id) ^ secret ^ multiplier) & mask
	for i := 0; i < len(p); i += 4 {
		state = (state*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(state>>16))
	}
	return p
}

func passwordSlice(id zk.SessionID) []byte {
	p := passwordOf(id)
	return p[:]
}
