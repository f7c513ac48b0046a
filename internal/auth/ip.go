package auth

import "github.com/conclave-project/conclave/internal/acl"

// validIP reports whether the id is an address, or an address with a number of
// leading bits.
func validIP(id string) bool {
	_, ok := acl.ParseNetwork(id)
	return ok
}
