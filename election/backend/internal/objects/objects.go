// Package objects is what backends on object stores share: the keys of elections, and the
// probe that comes before the first write.
//
// What always holds:
//
//	objects-O1  Each election has a key of its own, and no key is the folder of another.
//	objects-O2  No part of a key has more than PartBytesMax bytes, or is one that a file
//	            system reads otherwise.
package objects

import (
	"context"
	"net/url"
	"strings"
	"sync"
)

// PartBytesMax is the greatest length of one part of a key before its ending. Stores that
// keep objects as files take no longer parts than 255 bytes.
const PartBytesMax = 200

const (
	suffix = ".json"
	// more ends a part that goes on in the next. It is in no escaped name (objects-O1).
	more = "+/"
)

// Key returns the key of an election below a prefix: its name with everything but letters,
// digits and -_.~ as %XX.
func Key(prefix, name string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	var key strings.Builder
	key.WriteString(prefix + "/")
	for len(escaped) > PartBytesMax {
		key.WriteString(escaped[:PartBytesMax] + more)
		escaped = escaped[PartBytesMax:]
	}
	key.WriteString(escaped + suffix)
	return key.String()
}

// Name is the inverse; false for objects that are no election.
func Name(prefix, key string) (string, bool) {
	text, below := strings.CutPrefix(key, prefix+"/")
	text, isElection := strings.CutSuffix(text, suffix)
	name, err := url.PathUnescape(strings.ReplaceAll(text, more, ""))
	return name, below && isElection && err == nil && Key(prefix, name) == key
}

// Probe is whether a store has shown that it honours conditions. The zero value has not.
type Probe struct {
	mu     sync.Mutex // one at a time
	passed bool
}

// Once runs a probe until one has passed. It may be called by several goroutines.
func (p *Probe) Once(ctx context.Context, probe func(context.Context) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.passed {
		return nil
	}
	err := probe(ctx)
	p.passed = err == nil
	return err
}

// Skip is for tests whose server answers no probe.
func (p *Probe) Skip() { p.passed = true }
