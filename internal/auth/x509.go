package auth

import "strings"

// validName accepts what reads as a name of X.500: attributes with values, between
// commas. Commas in values are escaped or quoted.
func validName(id string) bool {
	for _, part := range names(id) {
		name, _, ok := strings.Cut(part, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return false
		}
	}
	return true
}

// names splits a name at its commas, plus signs and semicolons.
func names(id string) []string {
	if strings.TrimSpace(id) == "" {
		return nil
	}
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
