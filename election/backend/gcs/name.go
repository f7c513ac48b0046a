package gcs

import (
	"crypto/rand"
	"net/url"
	"strings"
)

const (
	suffix = ".json"
	// partBytesMax is the greatest length of one part of an object's name. Buckets
	// with folders take no longer parts than 512, other stores than 255.
	partBytesMax = 200
	// prefixBytesMax leaves an election's name its place in the 1024 bytes that
	// the name of an object may have.
	prefixBytesMax = 200
	// more ends a part that goes on in the next. It is in no escaped name, so
	// that no election is in the way of another's folder.
	more = "+/"
)

// keyOf returns the object of an election: its name with everything but
// letters, digits and -_.~ as %XX.
func (o Options) keyOf(name string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	var key strings.Builder
	key.WriteString(o.Prefix + "/")
	for len(escaped) > partBytesMax {
		key.WriteString(escaped[:partBytesMax] + more)
		escaped = escaped[partBytesMax:]
	}
	key.WriteString(escaped + suffix)
	return key.String()
}

// nameOf is the inverse; false for objects that are none of ours.
func (o Options) nameOf(key string) (string, bool) {
	text, ours := strings.CutPrefix(key, o.Prefix+"/")
	text, isElection := strings.CutSuffix(text, suffix)
	name, err := url.PathUnescape(strings.ReplaceAll(text, more, ""))
	return name, ours && isElection && err == nil && o.keyOf(name) == key
}

// probeKey is an object that there is not, for Probe. No election has such a key: it
// has another ending.
func (o Options) probeKey() string { return o.Prefix + "/" + rand.Text() + ".probe" }
