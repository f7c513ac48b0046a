package command

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/server"
)

// posture describes what a configuration means for those that can reach the server: which
// ports use clear text, who must prove what, who may do everything, and which limits apply.
// cfg is the configuration with which the server would be started.
func posture(config *zoocfg.Config, cfg *server.Config) string {
	var b strings.Builder
	say := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", what, fmt.Sprintf(format, args...))
	}
	clientsTLS := overTLS(&config.ClientTLS)
	switch {
	case cfg.ClientAddr == "":
	case config.ClientTLS.PlainToo:
		say("clients", "%s: in clear text, or %s", cfg.ClientAddr, clientsTLS)
	default:
		say("clients", "%s: in clear text", cfg.ClientAddr)
	}
	if cfg.SecureAddr != "" {
		say("clients", "%s: %s", cfg.SecureAddr, clientsTLS)
	}
	say("identities", "%s", identities(cfg))
	say("must prove", "%s", mustProve(config, cfg))
	say("super user", "%s", superUsers(cfg))
	if cfg.Auth.SkipACL {
		say("ACLs", "are ignored: every client may do everything (skipACL)")
	} else {
		say("ACLs", "are kept")
	}
	say("commands", "%s: on the ports for clients, for everybody who can reach them", fourLetters(cfg))
	servers(say, config, cfg)
	forOperators(say, config)
	if cfg.NoSync {
		say("disk", "a crash of the machine loses acknowledged writes: replies do not wait for the disk (forceSync=no)")
	} else {
		say("disk", "replies wait until a write is on disk")
	}
	if cfg.Audit.Enabled {
		say("audit", "%s has a line for each change that a client makes or tries; clients do not wait if it cannot be written", cfg.AuditFile())
	} else {
		say("audit", "none: changes are not recorded (audit.enable=false)")
	}
	say("backups", "%s", config.Backup.String())
	if h := config.HTTP; h.Address != "" {
		does := "changes nothing"
		if h.Changes {
			does = "changes what anyone may (conclave.httpChanges)"
		}
		say("dashboard", "%s: everybody on this machine reads what anyone may, and %s", h.Address, does)
		say("dashboard", "it shows the paths of all writes, and the ids of sessions: anybody who knows one can take it over at the port for clients")
	}
	if config.TraceEndpoint != "" {
		say("traces", "%s gets spans of %v of all writes, with their paths", redact.URL(config.TraceEndpoint), cfg.Trace.Ratio)
	}
	say("limits", "%s", limits(cfg))
	return b.String()
}

// overTLS says what a TLS port requires of its clients.
func overTLS(t *zoocfg.TLS) string {
	text := "TLS, "
	switch strings.ToLower(t.Settings.ClientAuth) {
	case "none":
		return text + "no certificate is asked for"
	case "want":
		text += "a certificate is asked for, but clients without one get in"
	default:
		text += "a certificate is required"
	}
	var checks []string
	if hostsCompared(t) {
		checks = append(checks, "for the address it comes from")
	}
	if t.Settings.CRL || t.Settings.OCSP {
		checks = append(checks, "not revoked")
	}
	if len(checks) > 0 {
		text += " (" + strings.Join(checks, ", ") + ")"
	}
	return text
}

// identities lists the schemes that ACLs may use.
func identities(cfg *server.Config) string {
	schemes := []string{"world", "ip"}
	for _, scheme := range []string{"digest", "x509", "sasl"} {
		if cfg.Auth.Knows(scheme) {
			schemes = append(schemes, scheme)
		}
	}
	text := strings.Join(schemes, ", ")
	if groups := &cfg.Auth.Groups; groups.On && cfg.Auth.Knows("x509") {
		text += "; x509 by the domains of " + auth.MapPath
		switch {
		case groups.Dedicated != "" && groups.Lenient:
			text += ": a certificate that is not of the domain " + groups.Dedicated + " proves nothing"
		case groups.Dedicated != "":
			text += ": a client whose certificate is not of the domain " + groups.Dedicated + " is disconnected"
		}
	}
	if cfg.Auth.SASL && cfg.SASL == nil {
		text += "; but no client can prove itself by sasl"
	}
	return text
}

// mustProve says what a client must have proved before it may make any request.
func mustProve(config *zoocfg.Config, cfg *server.Config) string {
	for _, scheme := range cfg.Auth.Enforce {
		switch scheme {
		case "ip":
			return "nothing: every client has an address, which is an identity of the scheme ip"
		case "digest":
			return "nothing: every client may add a name and a password of its own, which are an identity of the scheme digest"
		}
	}
	switch {
	case len(cfg.Auth.Enforce) == 0 && cfg.ClientAddr == "" && certified(&config.ClientTLS):
		return "nothing but the certificate: every client that has one is served, as far as ACLs let it"
	case len(cfg.Auth.Enforce) == 0:
		return "nothing: every client that connects is served, as far as ACLs let it"
	case len(cfg.Auth.Enforce) == 1:
		return "an identity of the scheme " + cfg.Auth.Enforce[0]
	}
	return "an identity of one of the schemes " + strings.Join(cfg.Auth.Enforce, ", ")
}

// superUsers names the users to whom ACLs do not apply.
func superUsers(cfg *server.Config) string {
	var all []string
	if user, _, has := strings.Cut(cfg.Auth.SuperDigest, ":"); has && cfg.Auth.Knows("digest") {
		all = append(all, "digest "+user)
	}
	switch groups := &cfg.Auth.Groups; {
	case !cfg.Auth.Knows("x509"):
	case groups.On:
		for _, id := range groups.Supers {
			all = append(all, "x509 "+id)
		}
		for _, domain := range groups.CrossDomains {
			all = append(all, "x509 of the domain "+domain)
		}
	case cfg.Auth.X509Super != "":
		all = append(all, "x509 "+cfg.Auth.X509Super)
	}
	if cfg.SASL != nil {
		for _, name := range cfg.Auth.Principals.Supers {
			all = append(all, "sasl "+name)
		}
		all = append(all, "sasl super, where an ACL has an entry of that scheme")
	}
	if len(all) == 0 {
		return "nobody"
	}
	return strings.Join(all, "; ")
}

// fourLetters lists the four-letter words that are answered.
func fourLetters(cfg *server.Config) string {
	all := []string{"srvr"}
	if cfg.ReadOnlyMode {
		all = append(all, "isro")
	}
	for _, name := range cfg.FourLetterWords {
		if name == "*" {
			return "all of four letters"
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, " ")
}

// servers says what another server must prove.
func servers(say func(what, format string, args ...any), config *zoocfg.Config, cfg *server.Config) {
	if cfg.Ensemble == nil {
		say("servers", "none: the server is standalone, no port for others is open")
		return
	}
	text := "in clear text"
	switch peers := &config.PeerTLS; {
	case peers.PlainToo && peers.Serves:
		text = "in clear text, or " + overTLS(peers) + "; this server connects with TLS"
	case peers.PlainToo:
		text = "in clear text, or " + overTLS(peers) + "; this server connects in clear text"
	case peers.Serves:
		text = overTLS(peers)
	}
	var proof string
	switch {
	case cfg.PeerProofs != nil && cfg.PeerProofs.Must:
		proof = "proves with SASL to be one"
	case cfg.PeerProofs != nil:
		proof = "says that it is one; SASL proves it for those that use it"
	case peersCertified(config) && config.PeerTLS.MembersOnly && !config.PeerTLS.Settings.NoHostCheck:
		proof = "has the certificate of a host of the configuration"
	case peersCertified(config):
		proof = "has a certificate and says that it is one: give the servers an authority of their own"
		if hostsCompared(&config.PeerTLS) && !config.PeerTLS.PlainToo {
			proof += "; a member needs one for its host"
		}
	default:
		proof = "says that it is one: let nobody else reach these ports"
	}
	for _, port := range peerPorts(cfg) {
		say("servers", "%s: %s", port, text)
	}
	say("servers", "another server is accepted if it %s", proof)
	if peers := &config.PeerTLS; peers.Serves && peers.Settings.NoHostCheck {
		say("servers", "a server that this one connects to may have the certificate of any host (%shostnameVerification=false)", zoocfg.PeerTLS)
	}
}

// forOperators says what the ports for operators and for Prometheus show, and to whom.
func forOperators(say func(what, format string, args ...any), config *zoocfg.Config) {
	at := func(host string, port int) string {
		return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
	}
	// clear is what a port in clear text says of itself, and tokens what it says at its end.
	clear := func(tokenFile string) string {
		if tokenFile == "" {
			return "in clear text for everybody who can reach it"
		}
		return "in clear text"
	}
	tokens := func(file, but string) string {
		if file == "" {
			return ""
		}
		return "; each request must show a token of " + file + but
	}
	if a := &config.Admin; !a.Serves {
		say("admin", "none: no admin port is open")
	} else {
		text := clear(a.TokenFile)
		switch {
		case a.TLS.PlainToo:
			text += ", or " + overTLS(&a.TLS)
		case a.TLS.Serves:
			text = overTLS(&a.TLS)
		}
		text += tokens(a.TokenFile, ", except health checks")
		if a.Snapshots {
			text += "; all data, for clients with all permissions on /"
		}
		say("admin", "%s: %s", at(a.Host, a.Port), text)
	}
	m := &config.Metrics
	tls := overTLS(&zoocfg.TLS{Settings: m.TLS})
	must := tokens(m.TokenFile, "")
	switch {
	case !m.Serves:
		say("metrics", "none: no port for Prometheus is open")
		return
	case m.BothOnOne():
		say("metrics", "%s: %s, or %s%s", at(m.Host, m.Port), clear(m.TokenFile), tls, must)
		return
	}
	if m.Port != zoocfg.NoPort {
		say("metrics", "%s: %s%s", at(m.Host, m.Port), clear(m.TokenFile), must)
	}
	if m.TLSPort != zoocfg.NoPort {
		say("metrics", "%s: %s%s", at(m.Host, m.TLSPort), tls, must)
	}
}

// peersCertified reports whether both ports for servers require a certificate.
func peersCertified(config *zoocfg.Config) bool {
	return config.PeerTLS.Serves && !config.PeerTLS.PlainToo && certified(&config.PeerTLS)
}

// hostsCompared reports whether a client's certificate is compared with its host.
func hostsCompared(t *zoocfg.TLS) bool { return t.Settings.ClientHostCheck && !t.Settings.NoHostCheck }

// certified reports whether a client needs a certificate on a TLS port.
func certified(t *zoocfg.TLS) bool {
	auth := t.Settings.ClientAuth
	return !strings.EqualFold(auth, "none") && !strings.EqualFold(auth, "want")
}

// peerPorts returns the addresses on which this server listens for other servers.
func peerPorts(cfg *server.Config) []string {
	m := cfg.Line()
	if m == nil {
		return nil
	}
	all := slices.Concat(cfg.PeerAddresses(m.Quorum), cfg.PeerAddresses(m.Election))
	if cfg.ObserverPort > 0 && !m.Observer {
		all = append(all, cfg.PeerAddresses(cfg.ObserverAddresses(m))...)
	}
	return all
}

// limits lists the limits that are set.
func limits(cfg *server.Config) string {
	var all []string
	say := func(on bool, format string, args ...any) {
		if on {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	t := &cfg.Throttle
	say(cfg.ConnsPerIPMax > 0, "%d connections from one address (of IPv6 from one /%d)", cfg.ConnsPerIPMax, cfg.NetworkBits)
	say(cfg.ConnsMax > 0, "%d in all", cfg.ConnsMax)
	say(t.Conns.Tokens > 0, "%d clients connect at a time, %d more every %s", t.Conns.Tokens, t.Conns.FillCount, t.Conns.FillTime)
	say(t.HandshakesMax > 0, "%d TLS handshakes at a time", t.HandshakesMax)
	say(true, "%d requests in progress, of %d bytes at most", cfg.InFlightMax, cfg.FrameBytesMax)
	say(t.RequestsMax > 0, "%d of them in the server's loop", t.RequestsMax)
	say(t.LargeBytes > 0, "those of more than %d bytes take at most %d together", t.LargeBytes, t.LargeBytesMax)
	for _, l := range []struct {
		of   string
		rate server.RateLimit
	}{{"connection", t.Rates.Session}, {"address", t.Rates.Address}, {"identity", t.Rates.Identity}} {
		say(l.rate.Requests > 0, "%d requests per second of one %s", l.rate.Requests, l.of)
		say(l.rate.Bytes > 0, "%d bytes of requests per second of one %s", l.rate.Bytes, l.of)
	}
	say(t.IdentityConnsMax > 0, "%d connections of one identity", t.IdentityConnsMax)
	say(t.Watches.Session > 0, "%d watches of one session", t.Watches.Session)
	say(t.Watches.Identity > 0, "%d watches of one identity", t.Watches.Identity)
	say(t.Watches.All > 0, "%d watches of all clients", t.Watches.All)
	say(!cfg.EnforceQuota, "quotas are logged, not enforced")
	say(cfg.EnforceQuota, "quotas are enforced")
	return strings.Join(all, "; ")
}
