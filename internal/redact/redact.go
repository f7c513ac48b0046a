// Package redact takes secrets out of URLs that errors show.
//
// In goes the text that somebody has given for a URL, which may be none: it is wrong, or
// there would be no error. Out comes what is left to recognize it by. What always holds:
//
//	redact-R1  Nothing is shown that stands before an @, wherever that is: a password that
//	           is not escaped may have slashes, commas and question marks.
//	redact-R2  Of the value of a parameter whose name speaks of a secret nothing is shown.
//
// It does not parse: net/url quotes what it cannot read.
package redact

import "strings"

// hidden stands for what is not shown, as in url.URL.Redacted.
const hidden = "xxxxx"

// secrets are parts of the names of parameters.
var secrets = []string{"pass", "secret", "token", "sig", "cred", "key", "auth"}

// URL returns the text without secrets.
func URL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = hidden + rest[at:]
	}
	rest, query, found := strings.Cut(rest, "?")
	if !found {
		return scheme + rest
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		if name, _, assigned := strings.Cut(parameter, "="); assigned && isSecret(name) {
			parameters[i] = name + "=" + hidden
		}
	}
	return scheme + rest + "?" + strings.Join(parameters, "&")
}

func isSecret(name string) bool {
	for _, part := range secrets {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return false
}
