package secure

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"
)

// revocation checks whether certificates were revoked. It asks the responders that they
// name (ocsp), else the lists that they name (crl). A certificate that no source confirms
// as good is refused, as in Java.
type revocation struct {
	crl, ocsp bool

	mu      sync.Mutex
	answers map[answerKey]*answer
}

// verdict is what an answer says about a certificate: nil if it is good, errRevoked, or an
// error that the answer does not cover it.
type verdict func(c *x509.Certificate) error

// clockSkew is how far the clock of a responder or list issuer may be ahead; the value is
// Java's.
const clockSkew = 15 * time.Minute

// check checks all certificates of a chain except the authority at its end.
func (r *revocation) check(chain []*x509.Certificate) error {
	for i := range len(chain) - 1 {
		if err := r.one(chain[i], chain[i+1]); err != nil {
			return fmt.Errorf("the certificate of %s: %w", subject(chain[i]), err)
		}
	}
	return nil
}

var errRevoked = errors.New("it was revoked")

func (r *revocation) one(c, issuer *x509.Certificate) error {
	var errs []error
	if r.ocsp {
		for _, url := range c.OCSPServer {
			err := r.askResponder(url, c, issuer)
			if err == nil || errors.Is(err, errRevoked) {
				return err
			}
			errs = append(errs, err)
		}
	}
	if r.crl {
		for _, url := range c.CRLDistributionPoints {
			err := r.readList(url, c, issuer)
			if err == nil || errors.Is(err, errRevoked) {
				return err
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return errors.New("it names neither a list of revoked certificates nor a responder that can be asked")
	}
	return fmt.Errorf("neither list nor responder answers: %w", errors.Join(errs...))
}

// askResponder asks by OCSP (RFC 6960).
func (r *revocation) askResponder(url string, c, issuer *x509.Certificate) error {
	question, err := ocsp.CreateRequest(c, issuer, nil)
	if err != nil {
		return err
	}
	says, err := r.ask(url, question, issuer, func(content []byte) (verdict, time.Time, error) {
		said, err := ocsp.ParseResponseForCert(content, c, issuer)
		if err != nil {
			return nil, time.Time{}, err
		}
		if said.Certificate != nil && !answersFor(said.Certificate, issuer) {
			return nil, time.Time{}, errors.New("the answer has a signature of somebody who may not sign answers")
		}
		until := said.NextUpdate
		if until.IsZero() {
			until = said.ThisUpdate.Add(clockSkew) // a newer answer may be available at any time
		}
		if err := inTime(said.ThisUpdate, until); err != nil {
			return nil, time.Time{}, fmt.Errorf("the answer %w", err)
		}
		var status error
		switch said.Status {
		case ocsp.Good:
		case ocsp.Revoked:
			status = errRevoked
		default:
			return nil, time.Time{}, errors.New("the responder does not know it")
		}
		return func(*x509.Certificate) error { return status }, until, nil // the question contains the certificate's number
	})
	if err != nil {
		return err
	}
	return says(c)
}

// inTime refuses answers that are not valid yet or have expired: anybody on the network
// path could replay an old answer.
func inTime(from, until time.Time) error {
	now := time.Now()
	switch {
	case now.Before(from.Add(-clockSkew)):
		return fmt.Errorf("is of %v, which is in the future", from)
	case now.After(until):
		return errors.New("is out of date")
	}
	return nil
}

// answersFor reports whether a certificate may sign answers for an issuer: it is the
// issuer's own, or the issuer has signed it for this purpose (RFC 6960, section 4.2.2.2).
func answersFor(c, issuer *x509.Certificate) bool {
	now := time.Now()
	return c.Equal(issuer) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) && now.After(c.NotBefore) && now.Before(c.NotAfter)
}
