package zoocfg

import (
	"maps"
	"slices"
	"strings"
)

// unused remarks on keys that ask for protection, or grant rights, and have no effect
// because of other keys.
func (r *reader) unused() {
	c, clients, peers := &r.out.Server.Auth, &r.out.ClientTLS, &r.out.PeerTLS
	nobodyAsked := strings.EqualFold(clients.Settings.ClientAuth, "none")
	const (
		none   = "nobody is asked for a certificate, ssl.clientAuth is none"
		noJAAS = "no client can prove a name by SASL without a JAAS file, -D java.security.auth.login.config=FILE"
		noTLS  = "no port for clients speaks TLS"
	)
	if e := r.seen["requireKerberosConfig"]; r.out.SASL.NeedKerberos && r.out.SASL.File == "" {
		r.remark(&e, "has no effect beyond the check at the start: %s", noJAAS)
	}
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		why := ""
		switch {
		case key == ClientTLS+"clientHostnameVerification" && clients.Serves && clients.Settings.ClientHostCheck:
			why = hostsUncompared(ClientTLS, clients)
		case key == PeerTLS+"clientHostnameVerification" && peers.Settings.ClientHostCheck && r.out.Server.Ensemble != nil && (peers.Serves || peers.PlainToo):
			why = hostsUncompared(PeerTLS, peers)
		case key == membersOnly && peers.MembersOnly && r.out.Server.Ensemble != nil:
			why = othersConnect(peers)
		case key == ClientTLS+"crl" && clients.Serves && clients.Settings.CRL && nobodyAsked,
			key == ClientTLS+"ocsp" && clients.Serves && clients.Settings.OCSP && nobodyAsked:
			why = none
		case key == "DigestAuthenticationProvider.superDigest" && c.NoDigest:
			why = "DigestAuthenticationProvider.enabled=false"
		case key == "DigestAuthenticationProvider.digestAlg" && c.NoDigest:
			why = "DigestAuthenticationProvider.enabled=false"
		case key == "X509AuthenticationProvider.superUser" && c.Groups.On:
			why = groupKey + "superUserId takes its place beside that provider"
		case key == "X509AuthenticationProvider.superUser" && !clients.Serves:
			why = noTLS
		case key == "X509AuthenticationProvider.superUser" && nobodyAsked:
			why = none
		case r.out.SASL.File == "" && (key == "superUser" || strings.HasPrefix(key, superUsers) || key == "letAnySaslUserDoX" ||
			key == "SASLAuthenticationProvider.superPassword"),
			r.out.SASL.File == "" && key == "allowSaslFailedClients" && r.out.Server.SASLOptional:
			why = noJAAS
		}
		if e := r.seen[key]; why != "" && e.Value != "" {
			r.remark(&e, "has no effect: %s", why)
		}
	}
}

// hostsUncompared returns why no connecting peer is compared with its host, "" if peers
// are.
func hostsUncompared(prefix string, t *TLS) string {
	switch {
	case t.Settings.NoHostCheck:
		return prefix + "hostnameVerification=false turns it off, as in Apache ZooKeeper"
	case strings.EqualFold(t.Settings.ClientAuth, "none"):
		return "nobody is asked for a certificate, " + prefix + "clientAuth is none"
	}
	return ""
}

// othersConnect returns why others than the servers of the configuration can connect to the
// ports for servers, "" if they cannot.
func othersConnect(t *TLS) string {
	if !t.Serves && !t.PlainToo {
		return "without sslQuorum or portUnification no port for servers speaks TLS"
	}
	var all []string
	if why := hostsUncompared(PeerTLS, t); why != "" {
		all = append(all, why)
	}
	if strings.EqualFold(t.Settings.ClientAuth, "want") {
		all = append(all, "who shows no certificate connects, too, "+PeerTLS+"clientAuth is want")
	}
	if t.PlainToo {
		all = append(all, "who speaks no TLS connects, too, portUnification is true")
	}
	return strings.Join(all, "; ")
}
