//go:build linux

package main

import (
	"encoding/binary"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
)

// misfit replaces an int in a body, which may be a length or a count, by one that is negative,
// though not null, or beyond the end.
func (g *generator) misfit(s step) step {
	var at []int
	for i := 0; i+4 <= len(s.body); i++ {
		if n := int(int32(binary.BigEndian.Uint32(s.body[i:]))); n >= 0 && n <= len(s.body)-i-4 {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return s
	}
	i, n := pick(g, at), pick(g, []int32{-2, -0x80000000, 0x7fffffff, int32(len(s.body)), 1 << 20, 1<<21 + 1})
	s.body = append(jute.AppendInt(s.body[:i:i], n), s.body[i+4:]...)
	s.text += fmt.Sprintf(" with the int %d at byte %d", n, i)
	s.alone = true
	return s
}
