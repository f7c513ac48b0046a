package peers

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// A candidate's metadata is sent to each member once, in a note of its own, and not with
// every change of what is said about the election: it may be long, and there may be many
// candidates. The note comes before the message that names the candidate, on the same
// connection.

// unnamedMax bounds, for each member, the candidates whose metadata is known although the
// member has not named them yet.
const unnamedMax = 1024

// waiting returns the claim as a waiter.
func (one *claim) waiting() waiting {
	return waiting{one.ID, one.Nonce, one.Priority, string(one.Metadata)}
}

// named returns this member's candidates that the others are told of.
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

// tellMetadata sends the metadata that was not sent yet to all others.
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

// tellMetadataTo sends all metadata to a member that has just connected.
func (c *contest) tellMetadataTo(l *link) {
	for _, one := range c.named() {
		if one.described {
			l.note(c.name, note{Kind: noteDescribed, Nonce: one.Nonce, Metadata: one.Metadata})
		}
	}
}

// onMetadata keeps the metadata of a note until its member names the candidate.
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

// describe adds the metadata to what a member says, and removes that of candidates which
// the member no longer names.
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
