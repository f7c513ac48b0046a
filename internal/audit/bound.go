package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/conclave-project/conclave/zk"
)

const (
	// valueMax is how many bytes of a path, or of a part of an ACL entry, a line contains.
	valueMax = 1024
	// aclMax is the length of an ACL in a line after which its other entries are left out.
	aclMax = 4096
	// sumBytes is how many bytes of a hash replace what is left out.
	sumBytes = 16
)

// bounded is escape for a value that may be long: it writes the beginning, the length and a hash, so
// two values with the same beginning stay different (audit-A4).
func bounded(b []byte, value string, separator byte) []byte {
	if len(value) <= valueMax {
		return escape(b, value, separator)
	}
	end := valueMax
	for end > valueMax-utf8.UTFMax && !utf8.RuneStart(value[end]) {
		end--
	}
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(value), len(value)))
	return fmt.Appendf(escape(b, value[:end], separator), "...[%d bytes sha256:%x]", len(value), sum[:sumBytes])
}

// appendRest appends the text that replaces the entries left out of a list (audit-A4).
func appendRest(b []byte, list []zk.ACL) []byte {
	h := sha256.New()
	var head []byte
	for i := range list {
		for _, s := range []string{list[i].Scheme, list[i].ID} {
			head = binary.BigEndian.AppendUint32(head[:0], uint32(len(s)))
			h.Write(head)
			h.Write(unsafe.Slice(unsafe.StringData(s), len(s)))
		}
		head = binary.BigEndian.AppendUint32(head[:0], uint32(list[i].Perms))
		h.Write(head)
	}
	return fmt.Appendf(b, "...[%d entries sha256:%x]", len(list), h.Sum(nil)[:sumBytes])
}
