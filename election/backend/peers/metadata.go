package peers

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// What candidates say of themselves goes to each member once, in a note for each
// candidate, and not again with every change of what is said of the election: it may
// be much, and there may be many. A note comes before what names its candidate, on the
// same connection.

// unnamedMax is of how many candidates the metadata of one member may be known that it
// has not named yet.
const unnamedMax = 1024

// waiting is the claim as one that waits.
func (one *claim) waiting() waiting {
	return waiting{one.ID, one.Nonce, one.Priority, string(one.Metadata)}
}

// named returns the candidates here that the others are told of.
func (c *contest) named() []*claim {
	var all []*claim
	if c.b.joined {
		all = slices.Clone(c.queue)
	}
	if c.holder != nil {
		all = append(all, c.holder)
	}
	return slices.DeleteFunc(all, func(one *claim) bool { return len(one.Metadata) == 0 })
}

// tellMetadata tells the others what they were not told yet.
func (c *contest) tellMetadata() {
	for _, one := range c.named() {
		if one.described {
			continue
		}
		one.described = true
		for _, l := range c.b.links {
			l.note(c.name, note{Kind: noteDescribed, Nonce: one.Nonce, Metadata: one.Metadata})
		}
	}
}

// tellMetadataTo tells a member that has just connected.
func (c *contest) tellMetadataTo(l *link) {
	for _, one := range c.named() {
		if one.described {
			l.note(c.name, note{Kind: noteDescribed, Nonce: one.Nonce, Metadata: one.Metadata})
		}
	}
}

// onMetadata keeps what a note tells until its member says who it is about.
func (c *contest) onMetadata(from algo.ID, n *note) {
	known := c.metadata[from]
	if known == nil {
		known = make(map[string]string)
		c.metadata[from] = known
	}
	unnamed := len(known)
	if s := c.others[from]; s != nil {
		unnamed -= len(s.Waiting)
	}
	if len(n.Metadata) <= election.MetadataMax && unnamed < unnamedMax {
		known[n.Nonce] = string(n.Metadata)
	}
}

// describe adds the metadata to what a member says, and forgets that of candidates
// which it does not name any more.
func (c *contest) describe(from algo.ID, s *said) {
	known := c.metadata[from]
	if len(known) == 0 {
		return
	}
	kept := make(map[string]string)
	take := func(nonce string) string {
		if text, found := known[nonce]; found {
			kept[nonce] = text
		}
		return kept[nonce]
	}
	for i := range s.Waiting {
		s.Waiting[i].metadata = take(s.Waiting[i].Nonce)
	}
	s.metadata = take(s.Nonce)
	c.metadata[from] = kept
}
