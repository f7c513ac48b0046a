package auth

import (
	"encoding/hex"
	"strings"
)

// validName accepts what Java reads as an X.500 name (X500Principal): attributes with values,
// separated by commas. Java refuses unknown attributes and likely typing errors.
func validName(id string) bool {
	if id == "" {
		return true
	}
	for _, part := range names(id) {
		name, value, ok := strings.Cut(part, "=")
		if !ok || !validAttribute(trim(name)) || !validValue(strings.TrimLeftFunc(value, blank)) {
			return false
		}
	}
	return true
}

// blank reports whether Java's trim removes r.
func blank(r rune) bool { return r <= ' ' }

func trim(s string) string { return strings.TrimFunc(s, blank) }

// names splits a name at its commas, plus signs and semicolons.
func names(id string) []string {
	var parts []string
	from, quoted := 0, false
	for i := 0; i < len(id); i++ {
		switch id[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ',', '+', ';':
			if !quoted {
				parts = append(parts, id[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, id[from:])
}

// attributes are those that Java knows by name.
var attributes = map[string]bool{
	"C": true, "CN": true, "DC": true, "DNQ": true, "DNQUALIFIER": true, "EMAIL": true, "EMAILADDRESS": true, "GENERATION": true,
	"GIVENNAME": true, "INITIALS": true, "IP": true, "L": true, "O": true, "OU": true, "S": true, "SERIALNUMBER": true,
	"ST": true, "STREET": true, "SURNAME": true, "T": true, "UID": true,
}

func validAttribute(name string) bool {
	name = strings.ToUpper(name)
	if attributes[name] {
		return true
	}
	parts := strings.Split(strings.TrimPrefix(name, "OID."), ".")
	for _, part := range parts {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	first, second := strings.TrimLeft(parts[0], "0"), ""
	if len(parts) > 1 {
		second = strings.TrimLeft(parts[1], "0")
	}
	small := len(second) < 2 || len(second) == 2 && second < "40"
	return len(parts) > 1 && (first == "2" || (first == "" || first == "1") && small)
}

// validValue checks a value without leading blanks: hex bytes after a #, a text between quotation
// marks, or a text in which special characters are escaped.
func validValue(value string) bool {
	switch {
	case strings.HasPrefix(value, "#"):
		return validBytes(value[1:])
	case strings.HasPrefix(value, `"`):
		rest, ok := unescaped(value[1:], `"`)
		return ok && strings.HasPrefix(rest, `"`) && trim(rest[1:]) == ""
	}
	rest, ok := unescaped(value, `,+<>;"`)
	return ok && rest == ""
}

// unescaped returns the rest of text from the first unescaped character of until; false if text escapes a
// character that needs no escape.
func unescaped(text, until string) (rest string, ok bool) {
	for i := 0; i < len(text); i++ {
		switch {
		case strings.IndexByte(until, text[i]) >= 0:
			return text[i:], true
		case text[i] != '\\':
		case i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			i += 2
		case i+1 < len(text) && strings.IndexByte(",=\n+<>#;\\\" ", text[i+1]) >= 0:
			i++
		default:
			return "", false
		}
	}
	return "", true
}

func isHex(b byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", b) >= 0 }

// validBytes reports whether digits are the hex form of exactly one DER value.
func validBytes(digits string) bool {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) < 2 {
		return false
	}
	length, head := int(b[1]), 2
	if more := length & 0x7f; length >= 0x80 {
		if more == 0 || more > 3 || len(b) < 2+more {
			return false
		}
		length, head = 0, 2+more
		for _, one := range b[2:head] {
			length = length<<8 | int(one)
		}
	}
	return len(b) == head+length
}
