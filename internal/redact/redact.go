// Package redact takes secrets out of URLs that errors show.
//
// In goes the text that somebody has given for a URL, which may be none: it is wrong, or
// there would be no error. Out comes what is left to recognize it by. What always holds:
//
//	redact-R1  Nothing is shown that stands before an @, wherever that is: a password that
//	           is not escaped may have slashes, commas and question marks.
//	redact-R2  Of the value of a parameter whose name speaks of a secret nothing is shown.
//	redact-R3  Of a text without a scheme nothing is shown that stands after such a name and an =:
//	           it may be what a database calls a connection string, in which a value has quotes.
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
	if !found {
		return upToSecret(rest)
	}
	rest, query, found := strings.Cut(rest, "?")
	if !found {
		return scheme + rest
	}
	var b strings.Builder
	for query != "" {
		end := strings.IndexAny(query, "&;")
		if end < 0 {
			end = len(query)
		}
		parameter := query[:end]
		if name, _, assigned := strings.Cut(parameter, "="); assigned && isSecret(name) {
			parameter = name + "=" + hidden
		}
		b.WriteString(parameter)
		b.WriteString(query[end:min(end+1, len(query))])
		query = query[min(end+1, len(query)):]
	}
	return scheme + rest + "?" + b.String()
}

// upToSecret returns a text up to the first value that has a name of a secret.
func upToSecret(text string) string {
	for at := range len(text) {
		if text[at] != '=' {
			continue
		}
		name := strings.TrimRight(text[:at], " \t")
		if isSecret(name[strings.LastIndexAny(name, " \t,;&?")+1:]) {
			return text[:at+1] + hidden
		}
	}
	return text
}

func isSecret(name string) bool {
	for _, part := range secrets {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return false
}
