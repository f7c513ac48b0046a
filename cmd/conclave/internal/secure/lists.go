package secure

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"
)

// readList parses a revocation list (RFC 5280, section 5).
func (r *revocation) readList(url string, c, issuer *x509.Certificate) error {
	says, err := r.ask(url, nil, issuer, func(content []byte) (verdict, time.Time, error) {
		list, err := x509.ParseRevocationList(content)
		if err != nil {
			return nil, time.Time{}, err
		}
		if err := inTime(list.ThisUpdate, list.NextUpdate); err != nil {
			return nil, time.Time{}, fmt.Errorf("the list %w", err)
		}
		if err := list.CheckSignatureFrom(issuer); err != nil {
			return nil, time.Time{}, err
		}
		scope, err := scopeOf(list)
		if err != nil {
			return nil, time.Time{}, err
		}
		revoked := make(map[string]struct{}, len(list.RevokedCertificateEntries))
		for i := range list.RevokedCertificateEntries {
			revoked[string(list.RevokedCertificateEntries[i].SerialNumber.Bytes())] = struct{}{}
		}
		return func(c *x509.Certificate) error {
			if !scope.covers(c) {
				return errors.New("the list is for other certificates")
			}
			if _, is := revoked[string(c.SerialNumber.Bytes())]; is {
				return errRevoked
			}
			return nil
		}, list.NextUpdate, nil
	})
	if err != nil {
		return err
	}
	return says(c)
}

// scope is which certificates a list covers: its issuingDistributionPoint (RFC 5280,
// section 5.2.5). The zero scope covers all.
type scope struct {
	Point       pointName      `asn1:"optional,tag:0"` // where the list is published; absent means anywhere
	Users       bool           `asn1:"optional,tag:1"` // covers no certificates of authorities
	Authorities bool           `asn1:"optional,tag:2"` // covers only certificates of authorities
	Reasons     asn1.BitString `asn1:"optional,tag:3"` // covers only these reasons
	Indirect    bool           `asn1:"optional,tag:4"` // also covers certificates of other issuers
	Attributes  bool           `asn1:"optional,tag:5"` // covers only attribute certificates
}

// pointName is where a list is published: names of several kinds, or a suffix to the
// issuer's name.
type pointName struct {
	Full     []asn1.RawValue `asn1:"optional,tag:0"`
	Relative asn1.RawValue   `asn1:"optional,tag:1"`
}

var (
	oidScope = asn1.ObjectIdentifier{2, 5, 29, 28}
	oidDelta = asn1.ObjectIdentifier{2, 5, 29, 27}
)

// scopeOf returns the scope of a list. A list with an unknown critical extension is
// refused, as the authority requires (section 5.2).
func scopeOf(list *x509.RevocationList) (scope, error) {
	var s scope
	for _, e := range list.Extensions {
		switch {
		case e.Id.Equal(oidScope):
			if rest, err := asn1.Unmarshal(e.Value, &s); err != nil || len(rest) > 0 {
				return s, errors.New("the list does not say for which certificates it is")
			}
		case e.Id.Equal(oidDelta):
			return s, errors.New("the list has only the changes since another list")
		case e.Critical:
			return s, fmt.Errorf("the list has a critical extension %v, which is not known", e.Id)
		}
	}
	for i := range list.RevokedCertificateEntries {
		for _, e := range list.RevokedCertificateEntries[i].Extensions {
			if e.Critical {
				return s, fmt.Errorf("the list has an entry with a critical extension %v, which is not known", e.Id)
			}
		}
	}
	return s, nil
}

// covers reports whether a list with this scope must contain a certificate if it is
// revoked. Lists for some of the reasons are not combined, and other issuers are not
// searched.
func (s *scope) covers(c *x509.Certificate) bool {
	switch {
	case s.Users && c.IsCA, s.Authorities && !c.IsCA, s.Attributes, s.Reasons.Bytes != nil, s.Indirect, s.Point.Relative.Bytes != nil:
		return false
	case s.Point.Full == nil:
		return true
	}
	return slices.ContainsFunc(s.Point.Full, func(name asn1.RawValue) bool {
		const url = 6
		return name.Class == asn1.ClassContextSpecific && name.Tag == url && slices.Contains(c.CRLDistributionPoints, string(name.Bytes))
	})
}
