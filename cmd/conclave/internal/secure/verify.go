package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// chain verifies certificates up to an authority, and returns those on the way.
func (m *material) chain(certificates []*x509.Certificate, usage x509.ExtKeyUsage) ([]*x509.Certificate, error) {
	if len(certificates) == 0 {
		return nil, errors.New("the server has shown no certificate")
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

// reverseMax is how long names of an address are looked for.
const reverseMax = 5 * time.Second

// isFor compares a certificate with an address, then with the name that was dialed, then
// with the names of the address if allowReverseDnsLookup is set, as Apache does.
func (s *Source) isFor(c *x509.Certificate, address, name string) error {
	err := verifyHost(c, address)
	if err == nil {
		return nil
	}
	if name != "" && name != address {
		return verifyHost(c, name)
	}
	if !s.settings.ReverseDNS {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), reverseMax)
	defer cancel()
	names, lookUp := net.DefaultResolver.LookupAddr(ctx, address)
	if lookUp != nil {
		return fmt.Errorf("%w; look up the names of %s: %w", err, address, lookUp)
	}
	for _, n := range names {
		if verifyHost(c, strings.TrimSuffix(n, ".")) == nil {
			return nil
		}
	}
	return fmt.Errorf("%w; nor is it for its names %s", err, strings.Join(names, ", "))
}

// verifyHost compares a certificate with a host: its alternative names, or, in one that
// has none, its common name, which Apache takes and Go alone does not.
func verifyHost(c *x509.Certificate, host string) error {
	if len(c.DNSNames) == 0 && len(c.IPAddresses) == 0 && c.Subject.CommonName != "" {
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
