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
}

// The families of settings, by how their keys begin.
const (
	ClientTLS = "ssl."
	PeerTLS   = "ssl.quorum."
)

// tlsKeys say which ports speak TLS, and how.
func (r *reader) tlsKeys() map[string]setting {
	clients, peers := &r.out.ClientTLS, &r.out.PeerTLS
	table := map[string]setting{
		"client.portUnification":   used(flag(&clients.PlainToo)),
		"client.certReload":        used(flag(&clients.Settings.Reload)),
		"ssl.authProvider":         refused(text(nil), "x509", "a client is known by the name of its certificate, which is x509"),
		"ssl.sslProvider":          idle(text(nil), whyTLS),
		"sslQuorum":                inEnsemble(used(flag(&peers.Serves))),
		"portUnification":          inEnsemble(used(flag(&peers.PlainToo))),
		"sslQuorumReloadCertFiles": used(flag(&peers.Settings.Reload)),
	}
	r.family(table, ClientTLS, &clients.Settings)
	r.family(table, PeerTLS, &peers.Settings)
	peers.Settings.ClientHostCheck = true
	return table
}

// family adds the keys of one family.
func (r *reader) family(table map[string]setting, prefix string, s *secure.Settings) {
	for name, setting := range map[string]setting{
		"protocol":                        used(text(&s.Protocol)),
		"enabledProtocols":                used(text(&s.Protocols)),
		"ciphersuites":                    used(text(&s.Ciphers)),
		"keyStore.location":               used(text(&s.Key.Location)),
		"keyStore.type":                   used(text(&s.Key.Type)),
		"keyStore.password":               used(text(&s.Key.Password)),
		"keyStore.passwordPath":           used(text(&s.Key.PasswordPath)),
		"trustStore.location":             used(text(&s.Trust.Location)),
		"trustStore.type":                 used(text(&s.Trust.Type)),
		"trustStore.password":             used(text(&s.Trust.Password)),
		"trustStore.passwordPath":         used(text(&s.Trust.PasswordPath)),
		"clientAuth":                      used(text(&s.ClientAuth)),
		"hostnameVerification":            used(notFlag(&s.NoHostCheck)),
		"clientHostnameVerification":      used(flag(&s.ClientHostCheck)),
		"allowReverseDnsLookup":           used(flag(&s.ReverseDNS)),
		"crl":                             used(flag(&s.CRL)),
		"ocsp":                            used(flag(&s.OCSP)),
		"context.supplier.class":          refused(text(nil), "none", "there are no Java classes here"),
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
	clients.Serves = c.SecureAddr != "" || clients.PlainToo
	c.Auth.X509 = clients.Serves
	peersSpeak := c.Ensemble != nil && (peers.Serves || peers.PlainToo)
	r.idleTLS(ClientTLS, clients.Serves, "without secureClientPort or client.portUnification no port for clients speaks TLS")
	r.idleTLS(PeerTLS, peersSpeak, "without sslQuorum or portUnification, and an ensemble, no port for servers speaks TLS")
}

// idleTLS remarks settings of a family that have no effect because no port speaks TLS.
func (r *reader) idleTLS(prefix string, served bool, why string) {
	if served {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		e := r.seen[key]
		if strings.HasPrefix(key, prefix) && (prefix == PeerTLS || !strings.HasPrefix(key, PeerTLS)) {
			r.remark(&e, "has no effect: %s", why)
		}
	}
}
