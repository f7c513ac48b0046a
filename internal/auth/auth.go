// Package auth decides which identities a connection has and what an ACL lets them do.
//
// Schemes turn a credential into identities; Allow checks identities against an
// access control list; Fix checks and completes a list that a client wants to
// set. Everything is a pure function of its arguments and of the Rules a server
// was started with. The packages that carry out an operation decide which
// permission it needs, and on which znode.
package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// Rules are a server's authentication settings. The zero Rules know the schemes
// world, ip and digest, and have no super user.
type Rules struct {
	SkipACL     bool   // skipACL=yes: everybody may do everything, but lists are still checked and stored
	SuperDigest string // the digest identity that is the super user, "" for none
	NoDigest    bool   // DigestAuthenticationProvider.enabled=false
	X509        bool   // names of certificates are identities: clients may use TLS
	X509Super   string // X509AuthenticationProvider.superUser: the name that is the super user, "" for none
	Groups      Groups // identities come from domains instead of from names
	SASL        bool   // names proved by SASL are identities
	Principals  Principals

	// Ensemble lets clients say which ensemble they want to talk to. Ensembles are the
	// names of this one; empty accepts any name.
	Ensemble  bool
	Ensembles []string

	// Enforce are the schemes of enforce.auth.schemes: until a connection has proved
	// an identity of one of them, it can do nothing but authenticate. Empty enforces
	// nothing.
	Enforce []string
	// Hash is DigestAuthenticationProvider.digestAlg, "" for SHA1. See ValidHash.
	Hash string
}

// Super is the identity that passes every ACL.
var Super = zk.Identity{Scheme: "super", ID: ""}

// scheme is what the ACL code must know about one way to prove an identity.
type scheme struct {
	valid         func(id string) bool // whether id may be in an ACL
	authenticated bool                 // whether the ACL scheme "auth" includes it
}

// scheme looks a scheme up.
func (r *Rules) scheme(name string) (scheme, bool) {
	switch name {
	case "ip":
		return scheme{valid: validIP}, true
	case "digest":
		return scheme{valid: validDigest, authenticated: true}, !r.NoDigest
	case "x509":
		valid := validName
		if r.Groups.On {
			valid = func(string) bool { return true } // a domain has any name
		}
		return scheme{valid: valid, authenticated: true}, r.X509
	case "sasl":
		return scheme{valid: validPrincipal, authenticated: true}, r.SASL
	case "ensemble":
		return scheme{valid: func(string) bool { return false }}, r.Ensemble
	}
	return scheme{}, false
}

// Connected returns the identities that every connection starts with.
func Connected(remoteIP string) []zk.Identity { return []zk.Identity{{Scheme: "ip", ID: remoteIP}} }

// Certified returns the identities that a certificate proves, by its name.
func (r *Rules) Certified(name string) []zk.Identity {
	proved := []zk.Identity{{Scheme: "x509", ID: name}}
	if r.X509Super != "" && name == r.X509Super {
		return append([]zk.Identity{Super}, proved...)
	}
	return proved
}

// ErrOtherEnsemble says that a client wants to talk to another ensemble. Its connection
// is closed without an answer: an answer would make the client give up instead of trying
// other servers.
var ErrOtherEnsemble = errors.New("auth: the client wants another ensemble")

// Authenticate returns the identities that a credential proves, to be added to
// those of the connection, or ErrAuthFailed, or ErrOtherEnsemble.
func (r *Rules) Authenticate(name string, credential []byte, remoteIP string) ([]zk.Identity, error) {
	if _, ok := r.scheme(name); !ok {
		return nil, zk.ErrAuthFailed
	}
	switch name {
	case "ip":
		return Connected(remoteIP), nil
	case "x509", "sasl":
		return nil, zk.ErrAuthFailed // proved only by an exchange, never by a credential
	case "ensemble":
		if len(credential) > 0 && len(r.Ensembles) > 0 && !slices.Contains(r.Ensembles, string(credential)) {
			return nil, ErrOtherEnsemble
		}
		return nil, nil
	}
	if credential == nil {
		return nil, zk.ErrAuthFailed // null, which is not the empty credential
	}
	id := r.Digest(string(credential))
	proved := []zk.Identity{{Scheme: "digest", ID: id}}
	if id == r.SuperDigest {
		proved = append(proved, Super)
	}
	return proved, nil
}

// Guessed reports whether a password was given for the super user's name that is not the
// super user's password.
func (r *Rules) Guessed(proved []zk.Identity) bool {
	user, _, _ := strings.Cut(r.SuperDigest, ":")
	if user == "" || slices.Contains(proved, Super) {
		return false
	}
	return slices.ContainsFunc(proved, func(id zk.Identity) bool {
		name, _, _ := strings.Cut(id.ID, ":")
		return id.Scheme == "digest" && name == user
	})
}

// Digest returns the identity of a credential under the Rules of a server that uses SHA1.
func Digest(credential string) string { return (&Rules{}).Digest(credential) }

// Digest returns the identity of a credential "user:password": the user, and a
// hash of the whole credential, as text: see JavaText.
func (r *Rules) Digest(credential string) string {
	credential = JavaText(credential)
	user, _, _ := strings.Cut(credential, ":")
	h := newHash(r.Hash)
	h.Write([]byte(credential)) // never fails
	return user + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Admits reports whether enforce.auth.schemes lets a connection with these identities make
// requests.
func (r *Rules) Admits(identities []zk.Identity) bool {
	if len(r.Enforce) == 0 {
		return true
	}
	return slices.ContainsFunc(identities, func(id zk.Identity) bool {
		scheme := id.Scheme
		if scheme == Super.Scheme && id != Super {
			scheme = "x509" // see Grouped
		}
		return slices.Contains(r.Enforce, scheme)
	})
}

// Knows reports whether an identity of a scheme can be proved to a server of these Rules.
func (r *Rules) Knows(name string) bool {
	_, ok := r.scheme(name)
	return ok && name != "ensemble"
}

// validDigest requires two parts around a colon. Trailing empty parts do not
// count, because Java's split drops them.
func validDigest(id string) bool {
	return strings.Count(strings.TrimRight(id, ":"), ":") == 1
}

// User returns the name by which whoAmI shows an identity.
func (r *Rules) User(id zk.Identity) string {
	switch id.Scheme {
	case "digest":
		user, _, _ := strings.Cut(id.ID, ":")
		return user
	case "ip":
		return acl.WriteAddress(id.ID)
	}
	if _, ok := r.scheme(id.Scheme); !ok {
		return ""
	}
	return id.ID
}

// anyone is the identity that everybody has.
var anyone = zk.Identity{Scheme: "world", ID: "anyone"}

// Allow reports whether identities may do perm under a list. An empty list
// permits everything to everybody.
func (r *Rules) Allow(list acl.List, perm zk.Perms, identities []zk.Identity) bool {
	if r.SkipACL || list.Len() == 0 || list.Grants(anyone)&perm != 0 {
		return true
	}
	for _, id := range identities {
		if id.Scheme == Super.Scheme {
			return true
		}
		if _, ok := r.scheme(id.Scheme); ok && r.grants(list, id)&perm != 0 {
			return true
		}
	}
	return false
}

// grants returns what a list lets an identity do. The SASL identity named super may do
// what any SASL identity may do, and every SASL identity may do what AnyoneAs may do.
func (r *Rules) grants(list acl.List, id zk.Identity) zk.Perms {
	perms := list.Grants(id)
	if id.Scheme != "sasl" {
		return perms
	}
	if r.Principals.AnyoneAs != "" {
		perms |= list.Grants(zk.Identity{Scheme: "sasl", ID: r.Principals.AnyoneAs})
	}
	if id.ID == "super" {
		perms |= list.GrantsScheme("sasl")
	}
	return perms
}

// Fix checks a list that a client wants to set at a path and completes it: it removes duplicates and replaces
// "auth" with the connection's authenticated identities. The result may take at most bytesMax in a
// transaction (0 is no limit), because each of 60,000 entries can become 256. With Groups the result can be
// another list, that of the client's domains. The error is ErrInvalidACL, or ErrBadArguments for a list that
// is too long.
func (r *Rules) Fix(path string, list []zk.ACL, identities []zk.Identity, bytesMax int) ([]zk.ACL, error) {
	own, instead := r.Groups.own(path, identities)
	switch {
	case len(own) > 0 && len(list) == 0:
		return nil, zk.ErrInvalidACL
	case instead && bytesMax > 0 && Bytes(own) > bytesMax:
		return nil, fmt.Errorf("%w: ACL is longer than %d bytes", zk.ErrBadArguments, bytesMax)
	case instead:
		return own, nil
	}
	if len(own) == 0 && len(list) == 1 && list[0].Scheme == "world" && list[0].ID == "anyone" {
		return list, nil // nearly every request
	}
	fixed := own
	seen, bytes := map[zk.ACL]bool{}, 0
	for _, entry := range list {
		if seen[entry] {
			continue
		}
		seen[entry] = true
		switch {
		case entry.Scheme == "world" && entry.ID == "anyone":
			fixed = append(fixed, entry)
		case entry.Scheme == "auth":
			added := r.expand(entry.Perms, identities)
			if len(added) == 0 {
				return nil, zk.ErrInvalidACL
			}
			if bytes += Bytes(added); bytesMax > 0 && bytes > bytesMax {
				return nil, fmt.Errorf("%w: ACL is longer than %d bytes", zk.ErrBadArguments, bytesMax)
			}
			fixed = append(fixed, added...)
		default:
			s, ok := r.scheme(entry.Scheme)
			if !ok || !s.valid(entry.ID) {
				return nil, zk.ErrInvalidACL
			}
			fixed = append(fixed, entry)
		}
	}
	if len(fixed) == len(own) {
		return nil, zk.ErrInvalidACL
	}
	return fixed, nil
}

// Bytes returns how many bytes the entries of a list take in a transaction, without the count in
// front.
func Bytes(list []zk.ACL) int {
	n := 12 * len(list)
	for i := range list {
		n += len(list[i].Scheme) + len(list[i].ID)
	}
	return n
}

func (r *Rules) expand(perms zk.Perms, identities []zk.Identity) []zk.ACL {
	var out []zk.ACL
	for _, id := range identities {
		if s, ok := r.scheme(id.Scheme); ok && s.authenticated {
			out = append(out, zk.ACL{Perms: perms, Identity: id})
		}
	}
	return out
}

// Mask hides the hashes of a list from clients that may not change it: "bob:hash"
// becomes "bob:x".
func Mask(list []zk.ACL) []zk.ACL {
	out := make([]zk.ACL, len(list))
	for i, entry := range list {
		out[i] = entry
		if entry.Scheme == "digest" {
			if user, _, ok := strings.Cut(entry.ID, ":"); ok {
				out[i].ID = user + ":x"
			}
		}
	}
	return out
}
