package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// Groups are the settings of ACLs by groups of znodes, as X509ZNodeGroupAclProvider has
// them: a client has the identities of the domains that a map in the tree gives the id of
// its certificate, and what it makes can belong to those.
type Groups struct {
	On           bool     // the provider is that of the scheme x509
	Supers       []string // superUserId: ids that may do everything
	CrossDomains []string // crossDomainAccessDomainName: domains whose members may
	OwnACL       bool     // setX509ClientIdAsAcl: what is made belongs to the domains of who makes it, whatever list was asked for
	OwnACLOf     []string // allowedClientIdAsAclDomains: that is so in these domains
	OpenRead     []string // openReadAccessPathPrefix: paths that begin so may be read by everybody, where OwnACL counts
	Dedicated    string   // dedicatedDomain: the one domain whose clients are served, "" for any
	Lenient      bool     // enforceDedicatedDomain=false: the others are served, too, with no identity
	KeepID       bool     // storeAuthedClientId: the id is an identity beside its domains
}

// ErrOtherDomain says that a client is in no domain that this server is for.
var ErrOtherDomain = fmt.Errorf("auth: the client is not of the domain that this server is for")

// Grouped returns the identities that a certificate with an id proves which a map gives some
// domains, or ErrOtherDomain. Those who may do everything have none of the scheme x509.
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

// Regrouped returns the identities of a connection of which a certificate proves others now.
// Those that were proved in other ways stay.
func Regrouped(have, proved []zk.Identity) []zk.Identity {
	var all []zk.Identity
	for _, id := range have {
		if id.Scheme != "x509" && (id.Scheme != Super.Scheme || id == Super) {
			all = append(all, id)
		}
	}
	return append(all, proved...)
}

// own returns the list that what a connection makes at a path has, whatever it asks for; and
// otherwise what is added to the list that it asks for.
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

// MapPath is where the tree has the map: a znode for each domain, and below it one for each
// id of a certificate that is in it.
const MapPath = "/zookeeper/uri-domain-map"

// MapIsOthers reports whether a client may not make or delete what is at path: the map. All
// may write below /zookeeper, and who made the map could put a client into any domain.
func (r *Rules) MapIsOthers(path string, identities []zk.Identity) bool {
	if !r.Groups.On || r.SkipACL || path != MapPath {
		return false
	}
	return !slices.ContainsFunc(identities, func(id zk.Identity) bool { return id.Scheme == Super.Scheme })
}

// Guarded reports whether what stands below a znode of the map counts: not everybody may
// change it.
func (r *Rules) Guarded(list acl.List) bool {
	const changes = zk.PermCreate | zk.PermDelete | zk.PermAdmin
	return r.SkipACL || list.Len() > 0 && list.Grants(anyone)&changes == 0
}
