package claims

import "github.com/conclave-project/conclave/election"

// Record is what a store keeps for one election. Stores that keep bytes use its JSON
// form. Unknown fields of later versions are ignored, and lost with the next write. A
// candidate writes its own fields again with every heartbeat, so a program that does
// not know a field removes it only until the next heartbeat.
type Record struct {
	// Holder is the id of the candidate that leads, empty for nobody. Nonce is
	// the nonce of its claim.
	Holder string `json:"holder,omitempty"`
	Nonce  string `json:"nonce,omitempty"`
	// Token of the holder, or of the last one.
	Token election.Token `json:"token"`
	// Incarnation is the store's incarnation when Token was issued, empty for
	// stores without one.
	Incarnation string `json:"incarnation,omitempty"`
	// Lease of the holder in milliseconds: a waiter that sees Heartbeat and Nonce
	// unchanged for this long, by its own clock, may take over.
	LeaseMs int64 `json:"leaseMs,omitempty"`
	// Heartbeat grows with every renewal.
	Heartbeat uint64 `json:"beat"`
	// Priority of the holder.
	Priority int `json:"priority,omitempty"`
	// Metadata is what the holder says about itself.
	Metadata []byte `json:"metadata,omitempty"`
	// Next is the candidate successor, nil for none.
	Next *Next `json:"next,omitempty"`
	// Wanted is the id of the candidate that the holder wants to be next.
	Wanted string `json:"wanted,omitempty"`
	// Touch grows when a write serves only to change the version.
	Touch uint64 `json:"touch,omitempty"`
	// Request is what an operator has asked of the holder.
	Request *election.Request `json:"request,omitempty"`
	// History holds the latest leaderships, oldest first; the last one is
	// that of the holder.
	History []election.Tenure `json:"history,omitempty"`
}

// Next is the candidate successor: the only place in a record for waiting
// candidates, taken by the one with the highest priority.
type Next struct {
	ID       string `json:"id"`
	Nonce    string `json:"nonce"`
	Priority int    `json:"priority,omitempty"`
	// Metadata is what the candidate says about itself.
	Metadata []byte `json:"metadata,omitempty"`
	// LeaseMs is the number of milliseconds without a new Heartbeat after which
	// the candidate counts as gone.
	LeaseMs int64 `json:"leaseMs"`
	// Heartbeat grows as long as the candidate waits.
	Heartbeat uint64 `json:"beat"`
	// State is "", StateNominated, StateReady or StateNotReady.
	State string `json:"state,omitempty"`
}

// States of Next.
const (
	StateNominated = "nominated" // the holder wants it to lead next
	StateReady     = "ready"     // it has warmed up
	StateNotReady  = "cold"      // it could not warm up
)
