package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// chain verifies certificates up to an authority, and returns those on the way.
func (m *material) chain(certificates []*x509.Certificate, usage x509.ExtKeyUsage) ([]*x509.Certificate, error) {
	if len(certificates) == 0 {
		return nil, errors.New("the server showed no certificate")
	}
	options := x509.VerifyOptions{Roots: m.roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range certificates[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := certificates[0].Verify(options)
	if err != nil {
		return nil, &tls.CertificateVerificationError{UnverifiedCertificates: certificates, Err: err}
	}
	return chains[0], nil
}

// isFor compares the first certificate of a chain with an address, then with the name that
// was dialed, then with the names of the address if allowReverseDnsLookup is set, as
// Apache does: with those that have the address. With DialedNameOnly it compares it with what
// was dialed alone, a name or an address: whose address a name has, the network says.
func (s *Source) isFor(ctx context.Context, chain []*x509.Certificate, address, name string) error {
	if s.settings.DialedNameOnly && name != "" {
		return verifyHost(chain, name)
	}
	err := verifyHost(chain, address)
	if err == nil {
		return nil
	}
	if name != "" && name != address {
		return verifyHost(chain, name)
	}
	if !s.settings.ReverseDNS {
		return err
	}
	names, lookUp := s.resolver.namesOf(ctx, address)
	if lookUp != nil {
		return fmt.Errorf("%w; look up the names of %s: %w", err, address, lookUp)
	}
	for _, n := range names {
		if verifyHost(chain, n) != nil {
			continue
		}
		if s.resolver.has(ctx, n, address) {
			return nil
		}
		return fmt.Errorf("%w; it is for %s, which %s says is its name, but that name does not have this address", err, n, address)
	}
	return fmt.Errorf("%w; nor is it for its names %s", err, strings.Join(names, ", "))
}

// isOneOf reports whether a certificate is for one of some hosts; or, where addresses are
// compared, is for the one that it comes from, which was looked at before, and one of the hosts has.
func (s *Source) isOneOf(ctx context.Context, hosts []string, chain []*x509.Certificate, address string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool { return verifyHost(chain, host) == nil }) ||
		s.comparesHosts() && slices.ContainsFunc(hosts, func(host string) bool { return s.resolver.has(ctx, host, address) })
}

// inTime is for the look-ups of one handshake.
func (s *Source) inTime() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), s.resolver.wait, errors.New("the name servers do not answer"))
}

// verifyHost compares the first certificate of a chain with a host: its alternative names,
// or, in one that has none, its common name, which Apache takes and Go alone does not. So
// Go does not compare that with what the authorities may name, either.
func verifyHost(chain []*x509.Certificate, host string) error {
	c := chain[0]
	if len(c.DNSNames) == 0 && len(c.IPAddresses) == 0 && c.Subject.CommonName != "" && !slices.ContainsFunc(chain[1:], constrains) {
		byName := *c
		if ip := net.ParseIP(c.Subject.CommonName); ip != nil {
			byName.IPAddresses = []net.IP{ip}
		} else {
			byName.DNSNames = []string{c.Subject.CommonName}
		}
		c = &byName
	}
	if err := c.VerifyHostname(host); err != nil {
		return fmt.Errorf("the certificate of %s is not for %s: %w", subject(c), host, err)
	}
	return nil
}

// trusts reports whether a key's certificate is of one of the authorities, whatever the time is.
func (m *material) trusts(key *tls.Certificate) bool {
	if m.roots == nil {
		return true
	}
	between := x509.NewCertPool()
	for _, der := range key.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := key.Leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return !errors.As(err, new(x509.UnknownAuthorityError))
}

// constrains reports whether an authority may name some hosts alone (RFC 5280, section
// 4.2.1.10).
func constrains(authority *x509.Certificate) bool {
	return slices.ContainsFunc(authority.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(oidConstraints) })
}

var oidConstraints = asn1.ObjectIdentifier{2, 5, 29, 30}

// TellDoubts warns of what Doubt says of this server's hosts, now and when files are read again.
func (s *Source) TellDoubts(hosts []string) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	s.hosts = hosts
	s.doubt()
}

// doubt is called with refreshing held.
func (s *Source) doubt() {
	if doubt := s.Doubt(s.hosts); s.hosts != nil && doubt != "" {
		s.logger.Warn(doubt)
	}
}

// Doubt says why other servers may refuse what this one shows them, which has these hosts; ""
// if they do not. Addresses of names are not looked for.
func (s *Source) Doubt(hosts []string) string {
	m := s.read.Load()
	for _, key := range m.keys {
		shown := []*x509.Certificate{key.Leaf}
		addressed := len(key.Leaf.IPAddresses) > 0 || net.ParseIP(key.Leaf.Subject.CommonName) != nil
		named := func(host string) bool {
			return verifyHost(shown, host) == nil || addressed && net.ParseIP(host) == nil // which may be its address
		}
		switch who := subject(key.Leaf); {
		case !m.trusts(&key):
			return fmt.Sprintf("the certificate of %s is from no authority in %strustStore: servers that trust the same ones refuse it. "+
				"Replace an authority in two steps, with both in all trust stores in between", who, s.prefix)
		case s.settings.NoHostCheck:
		case !slices.ContainsFunc(hosts, named):
			return fmt.Sprintf("the certificate of %s is for none of the hosts of this server's line (%s): servers that compare them refuse it, "+
				"as this one does, and Apache's with fips-mode=false. Add the hosts to it, or set %shostnameVerification=false everywhere", who, strings.Join(hosts, ", "), s.prefix)
		case s.settings.ClientHostCheck && !s.settings.ReverseDNS && !addressed:
			return fmt.Sprintf("the certificate of %s is for no address: servers that this one connects to refuse it, as this one would. "+
				"Add its addresses to it, or set %sclientHostnameVerification=false everywhere", who, s.prefix)
		}
	}
	return ""
}
