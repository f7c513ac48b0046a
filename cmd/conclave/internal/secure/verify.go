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

// chain verifies certificates up to an authority, and returns the chain.
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

// isFor compares the first certificate of a chain as Apache does: with the address, then
// with the name that was dialed; if none was dialed and allowReverseDnsLookup is set, with
// the names of the address, of which one must resolve to it. With DialedNameOnly it is
// compared only with the name or address that was dialed, because it is the network that
// says which address a name has.
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

// isOneOf reports whether a certificate is for one of the hosts. Where addresses are
// compared, it is enough that the certificate is for the address of the peer, which was
// checked before, and that one of the hosts has this address.
func (s *Source) isOneOf(ctx context.Context, hosts []string, chain []*x509.Certificate, address string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool { return verifyHost(chain, host) == nil }) ||
		s.comparesHosts() && slices.ContainsFunc(hosts, func(host string) bool { return s.resolver.has(ctx, host, address) })
}

// inTime returns a context for the look-ups of one handshake.
func (s *Source) inTime() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), s.resolver.wait, errors.New("the name servers do not answer"))
}

// verifyHost compares the first certificate of a chain with a host. A certificate without
// alternative names is compared by its common name, as in Apache; Go by itself does not do
// this, and it would not check a common name against name constraints: below an authority
// that has them, a common name does not count.
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

// trusts reports whether a key's certificate was issued by one of the authorities, ignoring
// validity periods.
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

// constrains reports whether an authority is restricted to some hosts (RFC 5280, section
// 4.2.1.10).
func constrains(authority *x509.Certificate) bool {
	return slices.ContainsFunc(authority.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(oidConstraints) })
}

var oidConstraints = asn1.ObjectIdentifier{2, 5, 29, 30}

// TellDoubts logs what Doubt returns for this server's hosts, now and whenever files are
// read again.
func (s *Source) TellDoubts(hosts []string) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	s.hosts = hosts
	s.doubt()
}

// doubt logs what Doubt returns. refreshing is held.
func (s *Source) doubt() {
	if doubt := s.Doubt(s.hosts); s.hosts != nil && doubt != "" {
		s.logger.Warn(doubt)
	}
}

// Doubt returns why other servers may refuse the certificate of this server, which has the
// given hosts; "" if they accept it. It does not resolve names.
func (s *Source) Doubt(hosts []string) string {
	m := s.read.Load()
	for _, key := range m.keys {
		shown := []*x509.Certificate{key.Leaf}
		addressed := len(key.Leaf.IPAddresses) > 0 || net.ParseIP(key.Leaf.Subject.CommonName) != nil
		named := func(host string) bool {
			return verifyHost(shown, host) == nil || addressed && net.ParseIP(host) == nil // the certificate may be for the address of this name
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
