package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Prefixes of the names of objects whose name is not that of their election.
const (
	escapedMark = "x--"    // escaped byte by byte
	hashedMark  = "x256--" // a SHA-256, if the escaped name is too long
)

const hexDigits = "0123456789abcdef"

// object returns the name of an election's Lease. A name that Kubernetes allows is kept, so
// that client-go finds the same object. Otherwise every character but a to z and 0 to 9 is
// written as a hyphen and two hexadecimal digits, after the prefix: "billing/Nightly" is
// x--billing-2f-4eightly.
func object(election string) string {
	if !strings.HasPrefix(election, escapedMark) && !strings.HasPrefix(election, hashedMark) &&
		len(validation.IsDNS1123Subdomain(election)) == 0 {
		return election
	}
	var out strings.Builder
	out.WriteString(escapedMark)
	for i := range len(election) {
		c := election[i]
		if plain(c) {
			out.WriteByte(c)
		} else {
			out.WriteString("-" + hexDigits[c>>4:c>>4+1] + hexDigits[c&15:c&15+1])
		}
	}
	if out.Len() > validation.DNS1123SubdomainMaxLength {
		sum := sha256.Sum256([]byte(election))
		return hashedMark + hex.EncodeToString(sum[:])
	}
	return out.String()
}

// plain reports whether a character is not escaped.
func plain(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// nameOf returns the election of an object; false if the object's name is not enough to
// find out. The annotation then has the election's name.
func nameOf(object string) (string, bool) {
	escaped, is := strings.CutPrefix(object, escapedMark)
	if !is {
		return object, !strings.HasPrefix(object, hashedMark)
	}
	var out strings.Builder
	for i := 0; i < len(escaped); i++ {
		if plain(escaped[i]) {
			out.WriteByte(escaped[i])
			continue
		}
		if i+2 >= len(escaped) {
			return "", false
		}
		pair, err := hex.DecodeString(escaped[i+1 : i+3])
		if err != nil {
			return "", false
		}
		out.Write(pair)
		i += 2
	}
	return out.String(), true
}
