package zoocfg

import (
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
)

// TLS is what the settings ask for on one kind of port.
type TLS struct {
	Settings secure.Settings
	Serves   bool // a port speaks TLS; else the settings have no effect
	PlainToo bool // and the port for both speaks without it, too

	MembersOnly bool // of the ports for servers: the certificate must be for a host of the configuration
}

// The families of settings, by how their keys begin.
const (
	ClientTLS = "ssl."
	PeerTLS   = "ssl.quorum."
)

const membersOnly = "conclave.sslQuorumMembersOnly"

// tlsKeys say which ports speak TLS, and how.
func (r *reader) tlsKeys() map[string]setting {
	clients, peers := &r.out.ClientTLS, &r.out.PeerTLS
	const reload = "files that change are read again within two seconds, keys and authorities; connections stay. While files do not fit " +
		"together, what was read before counts, and the log says so. Exchange a file by renaming another over it"
	table := map[string]setting{
		"client.portUnification":  used(flag(&clients.PlainToo), "false", "`clientPort` speaks TLS to clients that begin with it, and plain to others"),
		"client.certReload":       used(flag(&clients.Settings.Reload), "false", reload),
		"ssl.authProvider":        refused(text(nil), "x509", "a client is known by the name of its certificate, which is x509: leave this line out"),
		"secureClientPort":        used(port(&r.securePort), "none", "a port for clients that speaks TLS, beside `clientPort` or alone"),
		"secureClientPortAddress": used(text(&r.secureHost), "all", "address that it is opened on"),
		"ssl.sslProvider":         idle(text(nil), whyTLS),
		"sslQuorum":               inEnsemble(used(flag(&peers.Serves), "false", "the ports for servers speak TLS, and so does what is dialed")),
		"portUnification": inEnsemble(used(flag(&peers.PlainToo), "false", "those ports take connections with and without TLS. A running ensemble gets TLS in three rounds of restarts: "+
			"first this alone, then `sslQuorum` beside it, then `sslQuorum` alone")),
		membersOnly: inEnsemble(used(flag(&peers.MembersOnly), "true, and false with `reconfigEnabled` or without `ssl.quorum.clientHostnameVerification`", "who connects to those ports has the certificate of a host "+
			"that the configuration names, for its name or its address, so that a server joins once the others know it; else any certificate of the authority "+
			"that is for the address it comes from is a server, though as a member it acts only with one for that member's host: it is "+
			"sent all data, and its requests are taken in any name. Use an authority for these servers alone, or set it to true. "+
			"With `ssl.quorum.clientHostnameVerification=false` the names and addresses that stand in the certificate count, and not where it comes from; "+
			"then set it to true, or anybody with a certificate of the authority acts as any server. It has no effect beside "+
			"`ssl.quorum.hostnameVerification=false`, `portUnification` or a `ssl.quorum.clientAuth` of `want` or `none`: who sets it to true is told so at the start. Not in Apache")),
		"sslQuorumReloadCertFiles": used(flag(&peers.Settings.Reload), "false", reload),
	}
	r.family(table, ClientTLS, &clients.Settings)
	r.family(table, PeerTLS, &peers.Settings)
	peers.Settings.ClientHostCheck = true
	return table
}

const (
	storeType    = "`PEM` (.pem, key and certificates in one file), `JKS` (.jks) or `PKCS12` (.p12). `BCFKS` is refused, with the line of keytool that converts it"
	passwordPath = "a file with the password, which counts instead"
)

// family adds the keys of one family.
func (r *reader) family(table map[string]setting, prefix string, s *secure.Settings) {
	for name, setting := range map[string]setting{
		"protocol":                   used(text(&s.Protocol), "TLSv1.3", "the newest version spoken; 1.2 is spoken beside 1.3"),
		"enabledProtocols":           used(text(&s.Protocols), "TLSv1.2,TLSv1.3", "all of them. Older ones are not served"),
		"ciphersuites":               used(text(&s.Ciphers), "Go's choice", "suites of TLS 1.2; those of 1.3 are always all of them"),
		"keyStore.location":          used(text(&s.Key.Location), "must be set", "this server's key and certificate, with those between it and its authority"),
		"keyStore.type":              used(text(&s.Key.Type), "by the end of the name", storeType),
		"keyStore.password":          used(text(&s.Key.Password), "empty", "opens the store, and the key in it"),
		"keyStore.passwordPath":      used(text(&s.Key.PasswordPath), "none", passwordPath),
		"trustStore.location":        used(text(&s.Trust.Location), "must be set unless nobody is asked for a certificate", "the authorities of the certificates that are accepted"),
		"trustStore.type":            used(text(&s.Trust.Type), "by the end of the name", storeType),
		"trustStore.password":        used(text(&s.Trust.Password), "empty", "opens the store"),
		"trustStore.passwordPath":    used(text(&s.Trust.PasswordPath), "none", passwordPath),
		"clientAuth":                 used(text(&s.ClientAuth), "need", "who connects must show a certificate (`need`), may (`want`: a bad one is refused), or is not asked (`none`)"),
		"hostnameVerification":       used(notFlag(&s.NoHostCheck), "true", "the certificate of a server that is dialed is for its address or for its name"),
		"clientHostnameVerification": used(flag(&s.ClientHostCheck), "false; `ssl.quorum.`: true", "the certificate of who connects is for the address it comes from"),
		"allowReverseDnsLookup":      used(flag(&s.ReverseDNS), "false", "with `fips-mode=false`: or for a name of that address, which has that address"),
		"crl": used(flag(&s.CRL), "false", "a certificate must not stand in the list of revoked ones that it names (over HTTP); one that names none, "+
			"or whose list cannot be had, is out of date or is one of other certificates, is refused"),
		"ocsp": used(flag(&s.OCSP), "false", "the responder that it names must call it good. With `crl` too the list counts where no responder answers. "+
			"An answer that names no end ends 15 minutes after it was made. Answers are kept for an hour at most"),
		"context.supplier.class":          refused(text(nil), "none", "there are no Java classes here: name the files with keyStore.location and trustStore.location"),
		"handshakeDetectionTimeoutMillis": idle(number[int](nil, math.MinInt32, math.MaxInt32), "the first byte shows it, and a handshake ends with the time before a session"),
	} {
		table[prefix+name] = setting
	}
}

// tls checks what the keys of TLS say together with the others.
func (r *reader) tls() {
	c, clients, peers := &r.out.Server, &r.out.ClientTLS, &r.out.PeerTLS
	switch {
	case r.securePort != 0:
		c.SecureAddr = net.JoinHostPort(strings.Trim(r.secureHost, "[]"), strconv.Itoa(r.securePort))
	case r.secureHost != "":
		r.missing("secureClientPort", "is not set though secureClientPortAddress is")
	}
	if c.SecureAddr != "" && c.SecureAddr == c.ClientAddr {
		r.missing("secureClientPort", fmt.Sprintf("%d is clientPort, too: one port for both is client.portUnification=true with clientPort alone", r.securePort))
	}
	r.namesOfAddresses()
	later := c.Ensemble != nil && c.Reconfig.SecurePorts && clients.Settings.Key.Location != "" // a reconfig may open one
	clients.Serves = c.SecureAddr != "" || clients.PlainToo || later
	c.Auth.X509 = clients.Serves
	if _, given := r.seen[membersOnly]; !given {
		peers.MembersOnly = !c.ReconfigEnabled && peers.Settings.ClientHostCheck && !peers.Settings.NoHostCheck
	}
	peersSpeak := c.Ensemble != nil && (peers.Serves || peers.PlainToo)
	r.idleTLS(ClientTLS, "without secureClientPort or client.portUnification no port for clients speaks TLS", func(string) bool { return clients.Serves })
	r.idleTLS(PeerTLS, "without sslQuorum or portUnification, and an ensemble, no port for servers speaks TLS", func(key string) bool {
		return peersSpeak || r.out.Admin.TLS.Serves && r.ofAdmin(key)
	})
}

// namesOfAddresses asks nobody for them in FIPS mode, as in Apache, whose trust manager that
// does is not used then.
func (r *reader) namesOfAddresses() {
	for _, family := range []struct {
		prefix string
		s      *secure.Settings
	}{{ClientTLS, &r.out.ClientTLS.Settings}, {PeerTLS, &r.out.PeerTLS.Settings}} {
		if r.out.SASL.FIPS && family.s.ReverseDNS {
			family.s.ReverseDNS = false
			e := r.seen[family.prefix+"allowReverseDnsLookup"]
			r.remark(&e, "has no effect beside fips-mode, which is on unless fips-mode=false is set: as in Apache ZooKeeper no names of addresses are looked up then")
		}
	}
}

// idleTLS remarks settings of a family that have no effect because no port speaks TLS.
func (r *reader) idleTLS(prefix, why string, counts func(key string) bool) {
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		e := r.seen[key]
		if strings.HasPrefix(key, prefix) && !counts(key) && (prefix == PeerTLS || !strings.HasPrefix(key, PeerTLS)) {
			r.remark(&e, "has no effect: %s", why)
		}
	}
}
