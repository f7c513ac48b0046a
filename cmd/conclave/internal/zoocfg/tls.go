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

// TLS is the configuration of TLS for one kind of port.
type TLS struct {
	Settings secure.Settings
	Serves   bool // a port speaks TLS; otherwise the settings have no effect
	PlainToo bool // the same port accepts connections without TLS, too

	MembersOnly bool // for the ports for servers: a certificate must be for a host of the configuration
}

// The prefixes of the families of settings.
const (
	ClientTLS = "ssl."
	PeerTLS   = "ssl.quorum."
)

const membersOnly = "conclave.sslQuorumMembersOnly"

// tlsKeys set which ports speak TLS, and how.
func (r *reader) tlsKeys() map[string]setting {
	clients, peers := &r.out.ClientTLS, &r.out.PeerTLS
	const reload = "files that change (keys and authorities) are read again within two seconds; connections stay. While files do " +
		"not fit together, those read before count, and the log says so. To replace a file, rename another over it"
	table := map[string]setting{
		"client.portUnification":  used(flag(&clients.PlainToo), "false", "`clientPort` uses TLS with clients that begin with it, and clear text with others"),
		"client.certReload":       used(flag(&clients.Settings.Reload), "false", reload),
		"ssl.authProvider":        refused(text(nil), "x509", "a client is known by the name of its certificate, which is x509: leave this line out"),
		"secureClientPort":        used(port(&r.securePort), "none", "a port for clients that uses TLS, in addition to `clientPort` or alone"),
		"secureClientPortAddress": used(text(&r.secureHost), "all", "address on which that port is opened"),
		"ssl.sslProvider":         idle(text(nil), whyTLS),
		"sslQuorum":               inEnsemble(used(flag(&peers.Serves), "false", "the ports for servers use TLS, and so do connections to other servers")),
		"portUnification": inEnsemble(used(flag(&peers.PlainToo), "false", "the ports for servers accept connections with and without TLS. To turn on TLS in a running ensemble, restart "+
			"its servers in three rounds: first with only this key, then with `sslQuorum` as well, then with only "+
			"`sslQuorum`")),
		membersOnly: inEnsemble(used(flag(&peers.MembersOnly), "true, and false with `reconfigEnabled` or without `ssl.quorum.clientHostnameVerification`", "a server that connects to the ports for servers must have the certificate of a "+
			"host that the configuration names, for its name or its address, so a server can join only once the others know it. "+
			"Otherwise, a server may have any certificate of the authority that is for the address it connects from, "+
			"and only to act as a member does it need one for that member's host: it is sent all data, and its requests are accepted in any name. "+
			"Use a separate authority for these servers, or set this key to true. "+
			"With `ssl.quorum.clientHostnameVerification=false`, the names and addresses in the certificate count, not the address it connects from; "+
			"then set this key to true, or anybody with a certificate of the authority can act as any server. The key has no effect with "+
			"`ssl.quorum.hostnameVerification=false`, with `portUnification`, or with an `ssl.quorum.clientAuth` of `want` or `none`: "+
			"if it is true then, the log says so at the start. Not in Apache")),
		"sslQuorumReloadCertFiles": used(flag(&peers.Settings.Reload), "false", reload),
	}
	r.family(table, ClientTLS, &clients.Settings)
	r.family(table, PeerTLS, &peers.Settings)
	peers.Settings.ClientHostCheck = true
	return table
}

const (
	storeType    = "`PEM` (.pem, key and certificates in one file), `JKS` (.jks) or `PKCS12` (.p12). `BCFKS` is refused; the message has the keytool command that converts it"
	passwordPath = "a file with the password, used in place of the `password` key"
)

// family adds the keys of one family.
func (r *reader) family(table map[string]setting, prefix string, s *secure.Settings) {
	for name, setting := range map[string]setting{
		"protocol":                   used(text(&s.Protocol), "TLSv1.3", "the newest version that is used; with 1.3, 1.2 is supported as well"),
		"enabledProtocols":           used(text(&s.Protocols), "TLSv1.2,TLSv1.3", "versions of TLS; older ones are not served"),
		"ciphersuites":               used(text(&s.Ciphers), "Go's choice", "cipher suites of TLS 1.2; all those of TLS 1.3 are always enabled"),
		"keyStore.location":          used(text(&s.Key.Location), "must be set", "this server's key and certificate, with the intermediate certificates"),
		"keyStore.type":              used(text(&s.Key.Type), "by the end of the name", storeType),
		"keyStore.password":          used(text(&s.Key.Password), "empty", "the password of the store, and of the key in it"),
		"keyStore.passwordPath":      used(text(&s.Key.PasswordPath), "none", passwordPath),
		"trustStore.location":        used(text(&s.Trust.Location), "must be set unless nobody is asked for a certificate", "the authorities of the certificates that are accepted"),
		"trustStore.type":            used(text(&s.Trust.Type), "by the end of the name", storeType),
		"trustStore.password":        used(text(&s.Trust.Password), "empty", "opens the store"),
		"trustStore.passwordPath":    used(text(&s.Trust.PasswordPath), "none", passwordPath),
		"clientAuth":                 used(text(&s.ClientAuth), "need", "a client must show a certificate (`need`), may show one (`want`: a bad one is refused), or is not asked (`none`)"),
		"hostnameVerification":       used(notFlag(&s.NoHostCheck), "true", "the certificate of a server that this one connects to must be for its address or for its name"),
		"clientHostnameVerification": used(flag(&s.ClientHostCheck), "false; `ssl.quorum.`: true", "the certificate of a client must be for the address that it connects from"),
		"allowReverseDnsLookup":      used(flag(&s.ReverseDNS), "false", "with `fips-mode=false`: a certificate may also be for a name of that address, found by reverse DNS, that resolves to the address"),
		"crl": used(flag(&s.CRL), "false", "a certificate must not be in the revocation list that it names (over HTTP); it is refused if it names none, "+
			"or if the list cannot be fetched, is out of date or is for other certificates"),
		"ocsp": used(flag(&s.OCSP), "false", "the OCSP responder that a certificate names must call it good. With `crl` as well, the list counts if no "+
			"responder answers. An answer without an end ends 15 minutes after it was made. Answers are kept for an hour "+
			"at most"),
		"context.supplier.class":          refused(text(nil), "none", "there are no Java classes here: name the files with keyStore.location and trustStore.location"),
		"handshakeDetectionTimeoutMillis": idle(number[int](nil, math.MinInt32, math.MaxInt32), "the first byte shows it, and a handshake ends with the time before a session"),
	} {
		table[prefix+name] = setting
	}
}

// tls checks the TLS keys in combination with others.
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
	later := c.Ensemble != nil && c.Reconfig.SecurePorts && clients.Settings.Key.Location != "" // a reconfig may open a secure port
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

// namesOfAddresses turns off look-ups of the names of addresses in FIPS mode: Apache does
// not use the trust manager that does them in this mode.
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

// idleTLS remarks on settings of a family that have no effect because no port speaks TLS.
func (r *reader) idleTLS(prefix, why string, counts func(key string) bool) {
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		e := r.seen[key]
		if strings.HasPrefix(key, prefix) && !counts(key) && (prefix == PeerTLS || !strings.HasPrefix(key, PeerTLS)) {
			r.remark(&e, "has no effect: %s", why)
		}
	}
}
