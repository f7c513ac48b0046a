package secure

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Settings are the keys of one family, named as in zoo.cfg without the family's prefix.
type Settings struct {
	Protocol  string // protocol: the newest version spoken; "" is TLSv1.3
	Protocols string // enabledProtocols: all versions, separated by commas; "" is up to Protocol, from TLSv1.2
	Ciphers   string // ciphersuites: for TLSv1.2, separated by commas; "" is Go's choice

	Key, Trust Store

	ClientAuth      string // clientAuth: none, want or need; "" is need
	NoHostCheck     bool   // hostnameVerification=false: neither a dialed nor a dialing peer's certificate is compared with its host
	ClientHostCheck bool   // clientHostnameVerification: the certificate of a dialing peer must be for the address it comes from
	DialedNameOnly  bool   // not a setting of Apache's: the certificate must be for the dialed name; its address is not enough
	ReverseDNS      bool   // allowReverseDnsLookup: a certificate for the name of the address will do, too

	ClientID ClientID // of connecting clients

	CRL  bool // crl: a certificate must not be on the revocation list that it names
	OCSP bool // ocsp: the responder that a certificate names must call it good; with both set, the list is used if no responder answers

	Reload bool // files are read again when they change: by Watch, and before each Dial
}

// Store is a file with keys or certificates.
type Store struct {
	Location     string
	Type         string // PEM, JKS or PKCS12; "" means by the file name's extension
	Password     string
	PasswordPath string // a file with the password, used instead of Password
	KeyLocation  string // of a key store in PEM: the file with the key, if it is a different file
}

var versions = []struct {
	name string
	id   uint16
}{
	{"TLSv1.2", tls.VersionTLS12},
	{"TLSv1.3", tls.VersionTLS13},
}

// versions returns the oldest and the newest version that the settings allow.
func (s *Settings) versions(prefix string) (oldest, newest uint16, err error) {
	if s.Protocols == "" {
		switch s.Protocol {
		case "", "TLS", "TLSv1.3":
			return tls.VersionTLS12, tls.VersionTLS13, nil
		case "TLSv1.2":
			return tls.VersionTLS12, tls.VersionTLS12, nil
		}
		return 0, 0, fmt.Errorf("%sprotocol: %q is not supported: write TLSv1.2 or TLSv1.3", prefix, s.Protocol)
	}
	for name := range strings.SplitSeq(s.Protocols, ",") {
		at := slices.IndexFunc(versions, func(v struct {
			name string
			id   uint16
		}) bool {
			return v.name == strings.TrimSpace(name)
		})
		if at < 0 {
			return 0, 0, fmt.Errorf("%senabledProtocols: %q is not supported: write TLSv1.2, TLSv1.3 or both", prefix, strings.TrimSpace(name))
		}
		id := versions[at].id
		if oldest == 0 || id < oldest {
			oldest = id
		}
		newest = max(newest, id)
	}
	return oldest, newest, nil
}

// ciphers returns the suites for TLSv1.2, nil for Go's choice. The suites of TLSv1.3 cannot
// be chosen: all of them are secure.
func (s *Settings) ciphers(prefix string, newest uint16) ([]uint16, error) {
	if s.Ciphers == "" {
		return nil, nil
	}
	known := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	var suites []uint16
	of13 := false
	for name := range strings.SplitSeq(s.Ciphers, ",") {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(known, func(c *tls.CipherSuite) bool { return c.Name == name })
		switch {
		case at < 0:
			return nil, fmt.Errorf("%sciphersuites: %s is not supported; these are, of TLSv1.2: %s", prefix, name, strings.Join(names12(), ", "))
		case slices.Contains(known[at].SupportedVersions, tls.VersionTLS12):
			suites = append(suites, known[at].ID)
		default:
			of13 = true
		}
	}
	if len(suites) == 0 && of13 && newest >= tls.VersionTLS13 {
		return nil, nil
	}
	if len(suites) == 0 {
		return nil, fmt.Errorf("%sciphersuites names no suite of TLSv1.2, and no newer version is enabled", prefix)
	}
	return suites, nil
}

func names12() []string {
	var names []string
	for _, c := range tls.CipherSuites() {
		if slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
			names = append(names, c.Name)
		}
	}
	return names
}

// clientAuth returns which certificate is required of a connecting client.
func (s *Settings) clientAuth(prefix string) (tls.ClientAuthType, error) {
	switch strings.ToLower(s.ClientAuth) {
	case "", "need":
		return tls.RequireAndVerifyClientCert, nil
	case "want":
		return tls.VerifyClientCertIfGiven, nil
	case "none":
		return tls.NoClientCert, nil
	}
	return 0, fmt.Errorf("%sclientAuth: %q is not none, want or need", prefix, s.ClientAuth)
}
