package auth

import "github.com/conclave-project/conclave/zk"

// Verdicts remembers what Allow has said of long lists. A list may have forty thousand
// entries, and one request as many parts that ask for the same: each goes through the
// list once, not through its product with the parts.
//
// Lists and identities that it was asked about must not be changed. It is not safe for
// concurrent use.
type Verdicts struct {
	Rules *Rules
	known map[question]bool
}

// question is what was asked: slices by their place, which their keeping here reserves.
type question struct {
	list       *zk.ACL
	entries    int
	perm       zk.Perms
	who        *zk.Identity
	identities int
}

// A list is long with more entries than entriesShort: others are asked sooner than
// looked up. No more than verdictsMax are remembered, with their lists.
const (
	entriesShort = 16
	verdictsMax  = 64
)

// Allow is Rules.Allow.
func (v *Verdicts) Allow(list []zk.ACL, perm zk.Perms, identities []zk.Identity) bool {
	if len(list) <= entriesShort || len(identities) == 0 {
		return v.Rules.Allow(list, perm, identities)
	}
	q := question{&list[0], len(list), perm, &identities[0], len(identities)}
	allowed, ok := v.known[q]
	if !ok {
		allowed = v.Rules.Allow(list, perm, identities)
		if v.known == nil || len(v.known) >= verdictsMax {
			v.known = make(map[question]bool, verdictsMax)
		}
		v.known[q] = allowed
	}
	return allowed
}
