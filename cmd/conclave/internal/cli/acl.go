package cli

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

var permLetters = map[rune]zk.Perms{
	'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin,
}

// permOrder is the order in which ZooKeeper's own command line writes permissions.
const permOrder = "cdrwa"

// ParseACL parses entries scheme:id:perms separated by commas, as ZooKeeper's own
// command line writes them: world:anyone:cdrwa. An id may contain commas, as in
// names of certificates: x509:CN=app,O=Example:cdrwa.
func ParseACL(text string) ([]zk.ACL, error) {
	var list []zk.ACL
	for _, entry := range entries(text) {
		scheme, rest, ok := strings.Cut(entry, ":")
		last := strings.LastIndexByte(rest, ':')
		if !ok || last < 0 {
			return nil, fmt.Errorf("%q is not scheme:id:perms: %w", entry, zk.ErrInvalidACL)
		}
		var perms zk.Perms
		for _, letter := range rest[last+1:] {
			bit, known := permLetters[letter]
			if !known {
				return nil, fmt.Errorf("%q in %q is not one of c d r w a: %w", letter, entry, zk.ErrInvalidACL)
			}
			perms |= bit
		}
		list = append(list, zk.ACL{Perms: perms, Identity: zk.Identity{Scheme: scheme, ID: rest[:last]}})
	}
	return list, nil
}

// ACL is the JSON form of one entry of an access control list.
type ACL struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

// NewACL turns the protocol's entry into text. Bits that no operation uses are
// left out.
func NewACL(entry zk.ACL) ACL {
	perms := ""
	for _, letter := range permOrder {
		if entry.Perms&permLetters[letter] != 0 {
			perms += string(letter)
		}
	}
	return ACL{entry.Scheme, entry.ID, perms}
}

// String returns the entry in the form that ParseACL reads.
func (a ACL) String() string { return a.Scheme + ":" + a.ID + ":" + a.Perms }

// entries splits at the commas that follow an entry's permissions.
func entries(text string) []string {
	var all []string
	entry := ""
	for i, part := range strings.Split(text, ",") {
		if i > 0 && whole(entry) {
			all = append(all, entry)
			entry = part
			continue
		}
		if i > 0 {
			entry += ","
		}
		entry += part
	}
	return append(all, entry)
}

// whole reports whether a text ends in permissions, after a scheme and an id.
func whole(text string) bool {
	_, rest, ok := strings.Cut(text, ":")
	last := strings.LastIndexByte(rest, ':')
	return ok && last >= 0 && strings.Trim(rest[last+1:], permOrder) == ""
}
