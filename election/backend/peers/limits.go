package peers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// What the callers of this member bring has limits, so that each frame that it makes of
// that is one which the others take: one that they refuse would end the connection, and
// with it all elections, again and again (waitingBytesMax).

// checkClaim refuses a claim that no candidate makes. Its error matches
// election.ErrInvalid.
func checkClaim(c election.Claim) error {
	if err := election.ValidateName(c.Election); err != nil {
		return err
	}
	if len(c.Metadata) > election.MetadataMax {
		return fmt.Errorf("%w: metadata has %d bytes, at most %d are allowed", election.ErrInvalid, len(c.Metadata),
			election.MetadataMax)
	}
	return checkTexts(text{"id", c.ID}, text{"nonce", c.Nonce})
}

// checkRequest refuses what is too long for an operator to ask. Its error matches
// election.ErrInvalid.
func checkRequest(r election.Request) error {
	return checkTexts(text{"Transfer", r.Transfer}, text{"By", r.By}, text{"ID", r.ID})
}

// text is one that a caller brings, and what it is called.
type text struct{ name, value string }

func checkTexts(all ...text) error {
	for _, one := range all {
		if len(one.value) > textBytesMax {
			return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", election.ErrInvalid, one.name,
				len(one.value), textBytesMax)
		}
	}
	return nil
}

// checkMembers refuses members of whom no hello can tell: the others would not read it.
func checkMembers(ids []algo.ID) error {
	encoded, err := json.Marshal(ids)
	if err == nil && len(encoded) > membersBytesMax {
		err = fmt.Errorf("the ids of the members have %d bytes as JSON, at most %d are allowed", len(encoded), membersBytesMax)
	}
	return err
}

// waitingBytes is how many bytes of JSON a claim is in a queue, with the comma.
func waitingBytes(c election.Claim) int {
	encoded, _ := json.Marshal((&claim{Claim: c}).waiting()) // it has nothing that cannot be encoded
	return len(encoded) + 1
}

// queueSpace refuses a claim that would make the queue here longer than a frame can take
// along (waitingBytesMax). The queue has space again when a candidate has left it, to lead
// or because it gave up. The error matches election.ErrNoSpace.
func (c *contest) queueSpace(one *claim) error {
	size := one.bytes
	for _, other := range c.queue {
		size += other.bytes
	}
	if size > waitingBytesMax {
		return fmt.Errorf("%d candidates of this member wait in the election already, and their queue has %w for one more: "+
			"it may have %d bytes", len(c.queue), election.ErrNoSpace, waitingBytesMax)
	}
	return nil
}

// shortened is the text of an error as another member is told it, errorBytesMax at most.
func shortened(text string) string {
	if len(text) <= errorBytesMax {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:errorBytesMax-len(more)], "") + more
}
