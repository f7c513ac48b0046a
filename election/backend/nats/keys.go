package nats

import (
	"strconv"
	"strings"
)

// adoptedKey is not an escaped name: those have upper-case digits after "=".
const adoptedKey = "=settled"

const hexDigits = "0123456789ABCDEF"

// keyOf writes the name of an election with the characters that a key may contain: all
// bytes except letters, digits, "-", "_" and "/" become =XX. A dot would separate tokens of
// the subject.
func keyOf(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if c := name[i]; isPlain(c) {
			out.WriteByte(c)
		} else {
			out.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return out.String()
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '/'
}

// nameOf reverses keyOf; it returns false for other keys.
func nameOf(key string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(key); i++ {
		if isPlain(key[i]) {
			out.WriteByte(key[i])
			continue
		}
		if key[i] != '=' || i+2 >= len(key) {
			return "", false
		}
		c, err := strconv.ParseUint(key[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		out.WriteByte(byte(c))
		i += 2
	}
	name := out.String()
	return name, keyOf(name) == key
}
