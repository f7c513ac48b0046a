package secure

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/clock"
)

// ClientID defines which text of a certificate is the client's id: its name (RFC 2253), or
// one of its alternative names, as in X509AuthenticationUtil of ZooKeeper versions with
// groups.
type ClientID struct {
	Type    string // clientCertIdType: SAN for an alternative name, else the name
	Kind    int    // clientCertIdSanMatchType: kind of the alternative name, by the numbers of RFC 5280: 1 mail, 2 DNS, 4 directory, 6 URI, 7 address, 8 OID
	Match   string // clientCertIdSanMatchRegex: must match exactly one alternative name; "" matches any
	Extract string // clientCertIdSanExtractRegex: its first match is the id; "" means the whole name
	Group   int    // clientCertIdSanExtractMatcherGroupIndex: this group of the match is the id
}

// idRule is a compiled ClientID; nil means that the name is the id.
type idRule struct {
	kind           int
	match, extract *regexp.Regexp
	group          int
}

// rule returns the idRule, or an error that names the wrong setting. The keys belong to the
// family ssl.x509.
func (c *ClientID) rule() (*idRule, error) {
	if !strings.EqualFold(c.Type, "SAN") {
		return nil, nil
	}
	const prefix = "ssl.x509.clientCertIdSan"
	if !slices.Contains([]int{1, 2, 4, 6, 7, 8}, c.Kind) {
		return nil, fmt.Errorf("%sMatchType: %d is not a kind of alternative name with a text: write 1 (mail), 2 (DNS), 4 (directory), 6 (URI), 7 (address) or 8 (OID)", prefix, c.Kind)
	}
	r := &idRule{kind: c.Kind, group: c.Group}
	var err error
	if r.match, err = regexp.Compile(c.Match); err != nil {
		return nil, fmt.Errorf("%sMatchRegex: %w; what only Java knows, such as (?=...), is not supported", prefix, err)
	}
	extract := c.Extract
	if extract == "" {
		extract = ".*"
	}
	if r.extract, err = regexp.Compile(extract); err != nil {
		return nil, fmt.Errorf("%sExtractRegex: %w; what only Java knows, such as (?=...), is not supported", prefix, err)
	}
	if c.Group < 0 || c.Group > r.extract.NumSubexp() {
		return nil, fmt.Errorf("%sExtractMatcherGroupIndex: %d is not from 0 to %d, the number of groups", prefix, c.Group, r.extract.NumSubexp())
	}
	return r, nil
}

// clientID returns the id of a certificate. If no alternative name yields an id, it logs
// this and returns the name.
func (s *Source) clientID(c *x509.Certificate) string {
	if s.idRule == nil {
		return subject(c)
	}
	id, err := s.idRule.of(c)
	if err != nil {
		if count, tell := s.nameless.Note(int64(clock.Now().Millis())); tell {
			s.logger.Warn("a client's alternative names have no id: its name is used instead", "subject", subject(c), "error", err, "clients", count)
		}
		return subject(c)
	}
	return id
}

func (r *idRule) of(c *x509.Certificate) (string, error) {
	at := slices.IndexFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(oidAlternatives) })
	if at < 0 {
		return "", errors.New("there are none")
	}
	var all []asn1.RawValue
	if _, err := asn1.Unmarshal(c.Extensions[at].Value, &all); err != nil {
		return "", err
	}
	var found []string
	for i := range all {
		if text, ok := alternative(&all[i]); ok && all[i].Tag == r.kind && r.match.MatchString(text) {
			found = append(found, text)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d of them match, but exactly one must", len(found))
	}
	parts := r.extract.FindStringSubmatchIndex(found[0])
	if parts == nil || parts[2*r.group] < 0 {
		return "", fmt.Errorf("%q has no part that is the id", found[0])
	}
	return found[0][parts[2*r.group]:parts[2*r.group+1]], nil
}

var oidAlternatives = asn1.ObjectIdentifier{2, 5, 29, 17}

// alternative returns an alternative name as Java writes it; false if it is not text.
func alternative(v *asn1.RawValue) (string, bool) {
	switch v.Tag {
	case 1, 2, 6:
		return string(v.Bytes), true
	case 4:
		return subject(&x509.Certificate{RawSubject: v.Bytes}), true
	case 7:
		return javaAddress(v.Bytes), true
	case 8:
		var oid asn1.ObjectIdentifier
		_, err := asn1.UnmarshalWithParams(v.FullBytes, &oid, "tag:8")
		return oid.String(), err == nil
	}
	return "", false
}

// javaAddress returns an address as Java writes it: zero groups of IPv6 are written out.
func javaAddress(b []byte) string {
	if len(b) != net.IPv6len {
		return net.IP(b).String()
	}
	var parts []string
	for i := 0; i < len(b); i += 2 {
		parts = append(parts, fmt.Sprintf("%x", int(b[i])<<8|int(b[i+1])))
	}
	return strings.Join(parts, ":")
}
