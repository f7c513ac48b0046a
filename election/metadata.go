package election

import (
	"bytes"
	"fmt"
	"slices"
)

// MetadataMax is the maximum length of Options.Metadata in bytes.
const MetadataMax = 4096

// Waiter is a waiting candidate, as an observer sees it.
type Waiter struct {
	// ID is the id of the candidate; two candidates may share it.
	ID string
	// Metadata is what the candidate says about itself; empty for nothing.
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

// Equal reports whether two views show the same state of the same election. It does not compare
// Err.
func (v View) Equal(w View) bool {
	return v.Leader == w.Leader && v.Token == w.Token && v.Since.Equal(w.Since) && bytes.Equal(v.Metadata, w.Metadata) && v.Unconfirmed == w.Unconfirmed &&
		slices.EqualFunc(v.Waiters, w.Waiters, func(a, b Waiter) bool {
			return a.ID == b.ID && bytes.Equal(a.Metadata, b.Metadata)
		})
}

// Metadata returns Options.Metadata as it was when this candidate asked for the leadership. The
// caller may modify the result.
func (l Leadership) Metadata() []byte { return bytes.Clone(l.of().claim.Metadata) }

func checkMetadata(metadata []byte) error {
	if len(metadata) > MetadataMax {
		return fmt.Errorf("metadata has %d bytes, at most %d are allowed", len(metadata), MetadataMax)
	}
	return nil
}
