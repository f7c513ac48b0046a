package secure

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/certtest"
)

// TestWhichTextOfACertificateIsTheID: as in matchAndExtractSAN; without a match, the name
// of the certificate is the id.
func TestWhichTextOfACertificateIsTheID(t *testing.T) {
	ca := certtest.New("ca")
	uri := func(c *x509.Certificate, all ...string) {
		for _, text := range all {
			u, err := url.Parse(text)
			must(t, err)
			c.URIs = append(c.URIs, u)
		}
	}
	rich := ca.IssueAs(func(c *x509.Certificate) {
		uri(c, "urn:li:servicePrincipal:app;v1", "spiffe://x/other")
		c.EmailAddresses = []string{"app@example.com"}
	}, "rich", "app.example.com", "10.1.2.3", "::1").Certificate
	poor := ca.Issue("poor").Certificate
	directory, err := asn1.Marshal(pkix.Name{CommonName: "dir", Organization: []string{"Conclave"}}.ToRDNSequence())
	must(t, err)
	names, err := asn1.Marshal([]asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: directory},
		{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{0x2a, 0x03, 0x04}},
		{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: []byte{6, 1, 42, 0xa0, 2, 5, 0}},
	})
	must(t, err)
	odd := ca.IssueAs(func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{{Id: oidAlternatives, Value: names}} }, "odd").Certificate
	const name = "CN=rich,O=Conclave"
	for _, c := range []struct {
		of   *x509.Certificate
		rule ClientID
		want string
	}{
		{rich, ClientID{}, name},
		{rich, ClientID{Type: "SDN", Kind: 6}, name},
		{rich, ClientID{Type: "san", Kind: 1}, "app@example.com"},
		{rich, ClientID{Type: "SAN", Kind: 2}, "app.example.com"},
		{rich, ClientID{Type: "SAN", Kind: 7}, name},
		{rich, ClientID{Type: "SAN", Kind: 7, Match: `^10\.`}, "10.1.2.3"},
		{rich, ClientID{Type: "SAN", Kind: 7, Match: `:`}, "0:0:0:0:0:0:0:1"},
		{rich, ClientID{Type: "SAN", Kind: 6}, name},
		{rich, ClientID{Type: "SAN", Kind: 6, Match: "servicePrincipal"}, "urn:li:servicePrincipal:app;v1"},
		{rich, ClientID{Type: "SAN", Kind: 6, Match: "servicePrincipal", Extract: `servicePrincipal:([^;]*)`}, "servicePrincipal:app"},
		{rich, ClientID{Type: "SAN", Kind: 6, Match: "servicePrincipal", Extract: `servicePrincipal:([^;]*)`, Group: 1}, "app"},
		{rich, ClientID{Type: "SAN", Kind: 6, Match: "servicePrincipal", Extract: `(x)?principal|(s)`, Group: 1}, name},
		{rich, ClientID{Type: "SAN", Kind: 6, Match: "servicePrincipal", Extract: `none`}, name},
		{poor, ClientID{Type: "SAN", Kind: 6}, "CN=poor,O=Conclave"},
		{odd, ClientID{Type: "SAN", Kind: 4}, "CN=dir,O=Conclave"},
		{odd, ClientID{Type: "SAN", Kind: 8}, "1.2.3.4"},
		{odd, ClientID{Type: "SAN", Kind: 2}, "CN=odd,O=Conclave"},
	} {
		var log bytes.Buffer
		s := &Source{logger: slog.New(slog.NewTextHandler(&log, nil))}
		s.idRule, err = c.rule.rule()
		must(t, err)
		got := s.clientID(c.of)
		s.clientID(c.of) // one log line a minute: clients choose how often they connect
		if lines := strings.Count(log.String(), "\n"); lines > 1 {
			t.Errorf("%+v: %d lines", c.rule, lines)
		}
		if fallen := s.idRule != nil && strings.HasPrefix(c.want, "CN=") && c.rule.Kind != 4; got != c.want || fallen != strings.Contains(log.String(), "its name is used instead") {
			t.Errorf("%+v: %q, want %q; %s", c.rule, got, c.want, log.String())
		}
	}
	for _, c := range []struct {
		rule ClientID
		want string
	}{
		{ClientID{Type: "SAN", Kind: -1}, "ssl.x509.clientCertIdSanMatchType: -1 is not a kind of alternative name with a text"},
		{ClientID{Type: "SAN", Kind: 3}, "ssl.x509.clientCertIdSanMatchType: 3 "},
		{ClientID{Type: "SAN", Kind: 6, Match: "(?=x)"}, "ssl.x509.clientCertIdSanMatchRegex: "},
		{ClientID{Type: "SAN", Kind: 6, Extract: "("}, "ssl.x509.clientCertIdSanExtractRegex: "},
		{ClientID{Type: "SAN", Kind: 6, Extract: "(a)", Group: 2}, "ssl.x509.clientCertIdSanExtractMatcherGroupIndex: 2 is not from 0 to 1"},
	} {
		if _, err := c.rule.rule(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.rule, err)
		}
	}
}
