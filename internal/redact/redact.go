// Package redact removes secrets from URLs that appear in errors.
//
// The text may not be a valid URL: something is wrong with it, or there would be no
// error. The result is enough to recognize the URL. What always holds:
//
//	redact-R1  Nothing before an @ is shown, wherever the @ is: a password that is not
//	           escaped may have slashes, commas and question marks.
//	redact-R2  The value of a parameter whose name suggests a secret is not shown at all.
//	redact-R3  In a text without a scheme nothing after such a name and an = is shown: it may be
//	           a database connection string, in which values can be quoted.
//
// It does not parse: net/url quotes what it cannot read.
package redact

import "strings"

// hidden replaces what is not shown, as in url.URL.Redacted.
const hidden = "xxxxx"

// secrets are the parts of parameter names that suggest a secret.
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

// upToSecret returns a text up to the first value whose name suggests a secret.
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
