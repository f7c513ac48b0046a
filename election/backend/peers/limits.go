package peers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// What the callers of this member pass in is limited, so that every frame made of it is one
// that the other members accept. A frame that they refuse would end the connection, and
// with it all elections, again and again (waitingBytesMax).

// checkClaim returns an error for a claim that no candidate makes. It matches
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

// checkRequest returns an error for a request with a text that is too long. It matches
// election.ErrInvalid.
func checkRequest(r election.Request) error {
	return checkTexts(text{"Transfer", r.Transfer}, text{"By", r.By}, text{"ID", r.ID})
}

// text is a text from a caller, with its name for errors.
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

// checkMembers refuses members that do not fit into a hello, because the others would not
// read it.
func checkMembers(ids []algo.ID) error {
	encoded, err := json.Marshal(ids)
	if err == nil && len(encoded) > membersBytesMax {
		err = fmt.Errorf("the ids of the members have %d bytes as JSON, at most %d are allowed", len(encoded), membersBytesMax)
	}
	return err
}

// waitingBytes returns the size of a claim's JSON in a queue, including the comma.
func waitingBytes(c election.Claim) int {
	encoded, _ := json.Marshal((&claim{Claim: c}).waiting()) // all its fields can be encoded
	return len(encoded) + 1
}

// queueSpace refuses a claim that would make this member's queue too long for a frame
// (waitingBytesMax). There is space again when a candidate has left the queue because it
// leads or has given up. The error matches election.ErrNoSpace.
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

// shortened returns the text of an error as it is sent to another member: at most
// errorBytesMax.
func shortened(text string) string {
	if len(text) <= errorBytesMax {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:errorBytesMax-len(more)], "") + more
}
