package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// Groups are the settings of ACLs by groups of znodes, as in X509ZNodeGroupAclProvider. A
// map in the tree assigns domains to the id of a client's certificate. The client has the
// identities of these domains, and what it creates can belong to them.
type Groups struct {
	On           bool     // this is the provider of the scheme x509
	Supers       []string // superUserId: ids that may do everything
	CrossDomains []string // crossDomainAccessDomainName: domains whose members may do everything, too
	OwnACL       bool     // setX509ClientIdAsAcl: a new znode belongs to the domains of its creator, whatever list was requested
	OwnACLOf     []string // allowedClientIdAsAclDomains: the domains for which OwnACL applies
	OpenRead     []string // openReadAccessPathPrefix: where OwnACL applies, everybody may read paths with these prefixes
	Dedicated    string   // dedicatedDomain: the one domain whose clients are served, "" for any
	Lenient      bool     // enforceDedicatedDomain=false: other clients are served, too, without an identity
	KeepID       bool     // storeAuthedClientId: the id is an identity in addition to its domains
}

// ErrOtherDomain says that a client is in none of the domains that this server serves.
var ErrOtherDomain = fmt.Errorf("auth: the client is not of the domain that this server is for")

// Grouped returns the identities of a certificate with the given id, to which the map
// assigns the given domains, or ErrOtherDomain. Clients that may do everything get no
// identity of the scheme x509.
func (r *Rules) Grouped(id string, domains []string) ([]zk.Identity, error) {
	g := &r.Groups
	if slices.Contains(g.Supers, id) {
		return []zk.Identity{{Scheme: Super.Scheme, ID: id}}, nil
	}
	var proved []zk.Identity
	for _, domain := range domains {
		if slices.Contains(g.CrossDomains, domain) {
			proved = append(proved, zk.Identity{Scheme: Super.Scheme, ID: domain})
		}
	}
	switch {
	case len(proved) > 0:
		return proved, nil
	case g.Dedicated != "" && slices.Contains(domains, g.Dedicated):
		return []zk.Identity{{Scheme: "x509", ID: id}}, nil
	case g.Dedicated != "" && g.Lenient:
		return nil, nil
	case g.Dedicated != "":
		return nil, ErrOtherDomain
	}
	for _, domain := range domains {
		proved = append(proved, zk.Identity{Scheme: "x509", ID: domain})
	}
	if len(domains) == 0 || g.KeepID {
		proved = append(proved, zk.Identity{Scheme: "x509", ID: id})
	}
	return proved, nil
}

// Regrouped returns the identities of a connection after the map has changed: proved
// replaces those that the certificate proved before, and identities proved in other ways
// stay.
func Regrouped(have, proved []zk.Identity) []zk.Identity {
	var all []zk.Identity
	for _, id := range have {
		if id.Scheme != "x509" && (id.Scheme != Super.Scheme || id == Super) {
			all = append(all, id)
		}
	}
	return append(all, proved...)
}

// own returns the list that a znode created by a connection at a path has, whatever list was
// requested, or else the entries to add to the requested list.
func (g *Groups) own(path string, identities []zk.Identity) (list []zk.ACL, instead bool) {
	if !g.On || g.Dedicated != "" {
		return nil, false
	}
	owners := map[string]bool{}
	for _, id := range identities {
		if id.Scheme == "x509" && (g.OwnACL || slices.Contains(g.OwnACLOf, id.ID)) {
			owners[id.ID] = true
		}
	}
	if len(owners) == 0 && !g.OwnACL {
		return nil, false
	}
	for _, id := range identities {
		crossing := id.Scheme == Super.Scheme && id != Super && !slices.Contains(g.Supers, id.ID)
		if crossing || id.Scheme == "x509" && owners[id.ID] {
			list = append(list, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "x509", ID: id.ID}})
		}
	}
	instead = len(list) > 0
	if slices.ContainsFunc(g.OpenRead, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
		list = append(list, zk.ACL{Perms: zk.PermRead, Identity: anyone})
	}
	return list, instead
}

// MapPath is the path of the map: it has a child for each domain, which has a child for
// each certificate id in the domain.
const MapPath = "/zookeeper/uri-domain-map"

// MapIsOthers reports whether path is the map and the client may not create or delete it.
// Everybody may write below /zookeeper, and the creator of the map could put a client into
// any domain.
func (r *Rules) MapIsOthers(path string, identities []zk.Identity) bool {
	if !r.Groups.On || r.SkipACL || path != MapPath {
		return false
	}
	return !slices.ContainsFunc(identities, func(id zk.Identity) bool { return id.Scheme == Super.Scheme })
}

// Guarded reports whether the children of a znode of the map count: they do if not
// everybody may change them.
func (r *Rules) Guarded(list acl.List) bool {
	const changes = zk.PermCreate | zk.PermDelete | zk.PermAdmin
	return r.SkipACL || list.Len() > 0 && list.Grants(anyone)&changes == 0
}
