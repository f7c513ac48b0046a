// Package objects is shared by the backends on object stores: the keys of elections, and
// the probe before the first write.
//
// What always holds:
//
//	objects-O1  Each election has a key of its own, and no key is the folder of another.
//	objects-O2  No part of a key is longer than PartBytesMax bytes, or has a special
//	            meaning for a file system.
package objects

import (
	"context"
	"net/url"
	"strings"
	"sync"
)

// PartBytesMax is the greatest length of one part of a key without its ending. Stores that
// keep objects as files limit a part to 255 bytes.
const PartBytesMax = 200

const (
	suffix = ".json"
	// more ends a part that continues in the next one. No escaped name contains it
	// (objects-O1).
	more = "+/"
)

// Key returns the key of an election below a prefix: its name, with every character other
// than letters, digits and -_.~ written as %XX.
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

// Name is the inverse of Key; it returns false for objects that are not elections.
func Name(prefix, key string) (string, bool) {
	text, below := strings.CutPrefix(key, prefix+"/")
	text, isElection := strings.CutSuffix(text, suffix)
	name, err := url.PathUnescape(strings.ReplaceAll(text, more, ""))
	return name, below && isElection && err == nil && Key(prefix, name) == key
}

// Probe records whether a store has shown that it honours conditional writes. The zero
// value means that it has not.
type Probe struct {
	mu     sync.Mutex // held during a probe: one at a time
	passed bool
}

// Once runs the probe unless one has already passed. It may be called by several
// goroutines.
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

// Skip is for tests whose server cannot answer a probe.
func (p *Probe) Skip() { p.passed = true }
