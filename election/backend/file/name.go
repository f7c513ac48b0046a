package file

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/conclave-project/conclave/election"
)

// The longest file name that is made of the whole name, and how much of a longer name is
// kept before its hash. File systems allow 255 bytes.
const (
	plainMax  = 200
	prefixMax = 120
)

const hexDigits = "0123456789abcdef"

// escape turns the name of an election into a file name. Two names never share a file name,
// even on a file system that ignores case: everything except lower-case letters, digits,
// '-', '_' and inner dots becomes %xx. A name that would be too long keeps its beginning,
// followed by %% (which no other name contains) and its SHA-256.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	if b.Len() <= plainMax {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return b.String()[:prefixMax] + "%%" + hex.EncodeToString(sum[:])
}

// unescape returns the name from a file name; whole is false if the file name was
// shortened.
func unescape(file string) (name string, whole bool) {
	name, err := url.PathUnescape(file)
	return name, err == nil && escape(name) == file && election.ValidateName(name) == nil
}
