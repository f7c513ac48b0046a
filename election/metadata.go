package election

import (
	"bytes"
	"fmt"
	"slices"
)

// MetadataMax is how many bytes Options.Metadata may have.
const MetadataMax = 4096

// Waiter is a candidate that waits, as an observer sees it.
type Waiter struct {
	// ID is that of the candidate; two may share it.
	ID string
	// Metadata is what the candidate says of itself; empty for nothing.
	Metadata []byte
}

// WaiterIDs returns the ids of the waiters, next one first.
func (v View) WaiterIDs() []string {
	ids := make([]string, len(v.Waiters))
	for i, w := range v.Waiters {
		ids[i] = w.ID
	}
	return ids
}

// Waits reports whether a candidate with this id waits.
func (v View) Waits(id string) bool {
	return slices.ContainsFunc(v.Waiters, func(w Waiter) bool { return w.ID == id })
}

// Equal reports whether two views show the same of one election, Err apart.
func (v View) Equal(w View) bool {
	return v.Leader == w.Leader && v.Token == w.Token && v.Since.Equal(w.Since) && bytes.Equal(v.Metadata, w.Metadata) && v.Unconfirmed == w.Unconfirmed &&
		slices.EqualFunc(v.Waiters, w.Waiters, func(a, b Waiter) bool {
			return a.ID == b.ID && bytes.Equal(a.Metadata, b.Metadata)
		})
}

// Metadata returns Options.Metadata as it was when this candidate asked for the
// leadership. The caller may change it.
func (l Leadership) Metadata() []byte { return bytes.Clone(l.of().claim.Metadata) }

func checkMetadata(metadata []byte) error {
	if len(metadata) > MetadataMax {
		return fmt.Errorf("metadata has %d bytes, at most %d are allowed", len(metadata), MetadataMax)
	}
	return nil
}
