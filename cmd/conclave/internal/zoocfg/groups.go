package zoocfg

import (
	"maps"
	"math"
	"slices"
	"strings"
)

const (
	groupProvider = "org.apache.zookeeper.server.auth.znode.groupacl.X509ZNodeGroupAclProvider"
	groupKey      = "X509ZNodeGroupAclProvider."
	clientIDKey   = ClientTLS + "x509."
)

// groupKeys concern ACLs by groups of znodes, and the ids of clients.
func (r *reader) groupKeys() map[string]setting {
	g, id := &r.out.Server.Auth.Groups, &r.out.ClientTLS.Settings.ClientID
	id.Kind = -1
	const java = ". A regular expression in Go's syntax (RE2)"
	return map[string]setting{
		groupKey + "superUserId":                 used(texts(&g.Supers), "none", "ids of certificates whose clients may do everything, separated by commas. Where ids are names of certificates, the next one begins with `CN=`"),
		groupKey + "crossDomainAccessDomainName": used(texts(&g.CrossDomains), "none", "domains whose clients may do everything, separated by commas"),
		groupKey + "setX509ClientIdAsAcl": used(flag(&g.OwnACL), "false", "a znode that a client with a certificate creates, or whose ACL it sets, gets the ACL of the client's domains "+
			"(`cdrwa` for each), whatever ACL it asks for; this does not apply to clients of `superUserId`"),
		groupKey + "allowedClientIdAsAclDomains": used(texts(&g.OwnACLOf), "none", "like `setX509ClientIdAsAcl`, but only for clients of these domains, separated by commas"),
		groupKey + "openReadAccessPathPrefix":    used(texts(&g.OpenRead), "none", "with `setX509ClientIdAsAcl` or `allowedClientIdAsAclDomains`: everybody may read what is created at paths with these prefixes, separated by commas"),
		groupKey + "storeAuthedClientId":         used(flag(&g.KeepID), "false", "a client that has domains also has the identity of its own id"),
		groupKey + "dedicatedDomain": used(text(&g.Dedicated), "none", "clients with a certificate in this domain are served, with their ids as identities; others with a "+
			"certificate are disconnected, except for those that may do everything. ACLs are those that clients ask for"),
		groupKey + "enforceDedicatedDomain":                     used(notFlag(&g.Lenient), "true", "`false`: clients outside the dedicated domain are served, too, but have no identity from their certificates"),
		clientIDKey + "clientCertIdType":                        used(text(&id.Type), "the name", "`SAN`: the id of a client is an alternative name of its certificate; otherwise, or if none is found, it is the name of the certificate, as Java writes it"),
		clientIDKey + "clientCertIdSanMatchType":                used(number(&id.Kind, math.MinInt32, math.MaxInt32), "must be set with `SAN`", "with `clientCertIdType=SAN`: the kind of the alternative name: 1 mail, 2 DNS, 4 directory, 6 URI, 7 address, 8 OID"),
		clientIDKey + "clientCertIdSanMatchRegex":               used(text(&id.Match), "any", "must match in the alternative name that has the id, and in no other of its kind"+java),
		clientIDKey + "clientCertIdSanExtractRegex":             used(text(&id.Extract), "all of it", "the id is the first part of that alternative name that matches"+java),
		clientIDKey + "clientCertIdSanExtractMatcherGroupIndex": used(number(&id.Group, math.MinInt32, math.MaxInt32), "0", "with `clientCertIdSanExtractRegex`: the id is this group of the part that matches, 0 for all of it"),
	}
}

// texts reads values separated by commas.
func texts(into *[]string) func(string) error {
	return func(v string) error {
		*into = nil
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*into = append(*into, part)
			}
		}
		return nil
	}
}

// joined returns the names in a list of certificate names that was split at its commas. The
// names contain commas themselves: each begins with CN=, and a part that does not begin so
// belongs to the name before it.
func joined(parts []string) (names []string) {
	for _, part := range parts {
		if len(names) > 0 && !strings.HasPrefix(strings.ToUpper(part), "CN=") {
			names[len(names)-1] += "," + part
		} else {
			names = append(names, part)
		}
	}
	return names
}

// groups decides whether there are groups, and remarks on settings for groups that have no
// effect because of other settings.
func (r *reader) groups() {
	g, clients := &r.out.Server.Auth.Groups, &r.out.ClientTLS
	for key, e := range r.seen {
		g.On = g.On || strings.HasPrefix(key, "authProvider.") && e.Value == groupProvider
	}
	if !strings.EqualFold(clients.Settings.ClientID.Type, "SAN") {
		g.Supers = joined(g.Supers)
	}
	dedicated := g.Dedicated != ""
	listed := g.OwnACL || len(g.OwnACLOf) > 0
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		e := r.seen[key]
		name, ofGroups := strings.CutPrefix(key, groupKey)
		why := ""
		switch {
		case strings.HasPrefix(key, "authProvider.") && e.Value == groupProvider:
			why = r.unshown(clients)
		case strings.HasPrefix(key, clientIDKey+"clientCertIdSan") && clients.Serves && !strings.EqualFold(clients.Settings.ClientID.Type, "SAN"):
			why = clientIDKey + "clientCertIdType is not SAN"
		case !ofGroups:
		case !g.On:
			why = "no authProvider names X509ZNodeGroupAclProvider"
		case dedicated && (name == "setX509ClientIdAsAcl" || name == "allowedClientIdAsAclDomains" || name == "openReadAccessPathPrefix" || name == "storeAuthedClientId"):
			why = groupKey + "dedicatedDomain is set"
		case name == "enforceDedicatedDomain" && !dedicated:
			why = groupKey + "dedicatedDomain is not set"
		case name == "openReadAccessPathPrefix" && !listed:
			why = "no list is set by " + groupKey + "setX509ClientIdAsAcl"
		}
		if why != "" && e.Value != "" {
			r.remark(&e, "has no effect: %s", why)
		}
	}
}

// unshown returns why no client shows a certificate, "" if clients may do so.
func (r *reader) unshown(clients *TLS) string {
	switch {
	case !clients.Serves:
		return "no port for clients speaks TLS"
	case strings.EqualFold(clients.Settings.ClientAuth, "none"):
		return "nobody is asked for a certificate, ssl.clientAuth is none"
	}
	return ""
}
