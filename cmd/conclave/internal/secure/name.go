package secure

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"

	"github.com/conclave-project/conclave/internal/auth"
)

// keywords are the attributes for which RFC 2253 has names (section 2.3).
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// subject returns the name of a certificate as Java's X500Principal.getName writes it and
// as ACLs contain it: in the form of RFC 2253, the last part first; an attribute without a
// keyword is written as the number of its type and its bytes.
func subject(c *x509.Certificate) string {
	var parts []asn1.RawValue
	if rest, err := asn1.Unmarshal(c.RawSubject, &parts); err != nil || len(rest) > 0 {
		return c.Subject.String()
	}
	names := make([]string, 0, len(parts))
	for i := len(parts) - 1; i >= 0; i-- {
		var attributes []attribute
		if _, err := asn1.UnmarshalWithParams(parts[i].FullBytes, &attributes, "set"); err != nil {
			return c.Subject.String()
		}
		var texts []string
		for _, a := range attributes {
			texts = append(texts, a.text())
		}
		names = append(names, strings.Join(texts, "+"))
	}
	return strings.Join(names, ",")
}

func (a *attribute) text() string {
	name, known := keywords[a.Type.String()]
	if known && printable(a.Value.Tag) {
		return name + "=" + escaped(auth.JavaText(string(a.Value.Bytes))) // Java decodes all string types this way
	}
	if !known {
		name = a.Type.String()
	}
	return name + "=#" + hex.EncodeToString(a.Value.FullBytes)
}

func printable(tag int) bool {
	switch tag {
	case asn1.TagPrintableString, asn1.TagUTF8String, asn1.TagIA5String, asn1.TagT61String, asn1.TagBMPString, asn1.TagGeneralString:
		return true
	}
	return false
}

// escaped escapes a value as RFC 2253 does (section 2.4); as in Java, that includes all
// blanks at its ends.
func escaped(value string) string {
	var b strings.Builder
	for _, r := range value {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	const blanks = " \r"
	text := b.String()
	rest := strings.TrimLeft(text, blanks)
	middle := strings.TrimRight(rest, blanks)
	return blanksEscaped(text[:len(text)-len(rest)]) + middle + blanksEscaped(rest[len(middle):])
}

func blanksEscaped(blanks string) string {
	var b strings.Builder
	for i := range len(blanks) {
		b.WriteByte('\\')
		b.WriteByte(blanks[i])
	}
	return b.String()
}
