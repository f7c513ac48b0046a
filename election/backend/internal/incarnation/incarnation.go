// Package incarnation protects elections from leaderships that a store has forgotten.
//
// A store may forget a grant or a renewal without its holder learning of that: when it
// fails over to a copy that lagged, is restored, or loses what was not on disk yet. Some
// stores have an identifier that changes whenever this may have happened (their
// incarnation). For these stores the following always holds:
//
//	incarnation-I1  Nobody takes an election under an incarnation that is not
//	                adopted. A candidate adopts it when it has seen it for LeaseMax
//	                by its own clock: whatever was granted before has then run
//	                out. The store keeps the adopted incarnation beside its records,
//	                and compares it in the same atomic step as the version. A store
//	                with none adopted may have lost it together with grants of the
//	                same incarnation: the time for which that incarnation was seen
//	                counts from then on (Outcome.Blank).
//	incarnation-I2  No lease is longer than LeaseMax. An incarnation is adopted for
//	                all elections that share the table, hash or bucket, so all
//	                their candidates must have the same LeaseMax.
//	incarnation-I4  A record that names its first holder under an incarnation
//	                has a token higher than any that was forgotten: by a stride
//	                larger than any clock error and any number of grants
//	                (record-R4). Only after a second failover, which also forgets
//	                that the first incarnation was adopted, does this depend on
//	                the wall clocks, which must then agree within LeaseMax.
//	incarnation-I3  Renewals, releases and places in the queue need not wait: a leader
//	                whose record is still there continues to lead.
//	incarnation-I5  A candidate that sees incarnations come and go asks no more
//	                often than a waiter, and gets an error: an address may lead to
//	                several servers in turn, and then nobody can be elected.
package incarnation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// LeaseMaxDefault is the longest lease if no other is configured.
const LeaseMaxDefault = 15 * time.Second

// Watch records which incarnations of a store this process has seen, and when. Its methods
// may be called by several goroutines.
type Watch struct {
	leaseMax time.Duration
	pause    time.Duration // between attempts, because another candidate may have adopted it
	now      func() clock.Instant

	mu      sync.Mutex
	current string
	since   clock.Instant
	recent  []string // those seen since one of them was the only one for leaseMax
	turns   int      // how often one of them came back

	blank      string // the last Outcome.Blank
	blankSince clock.Instant
}

const (
	recentMax = 8
	// turnsMax is how often an incarnation may come back before that is an error: during a
	// failover a connection to the former server may still answer.
	turnsMax = 3
)

// NewWatch returns a Watch for leases of at most leaseMax; zero means the default.
func NewWatch(leaseMax time.Duration) *Watch {
	if leaseMax == 0 {
		leaseMax = LeaseMaxDefault
	}
	return &Watch{leaseMax: leaseMax, pause: time.Second, now: clock.Now}
}

// See records that the store has answered under this incarnation. It returns for how long
// the incarnation must still be seen before it may be adopted.
func (w *Watch) See(incarnation string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if w.current != incarnation {
		w.current, w.since = incarnation, now
		w.turn()
	}
	left := max(0, w.leaseMax-now.Sub(w.since))
	if left == 0 {
		w.recent, w.turns = append(w.recent[:0], incarnation), 0
	}
	return left
}

// seeBlank records the Outcome.Blank of a refusal. It returns for how long it must still be
// seen before an incarnation may be adopted.
func (w *Watch) seeBlank(blank string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if w.blank != blank {
		w.blank, w.blankSince = blank, now
	}
	if blank == "" {
		return 0
	}
	return max(0, w.leaseMax-now.Sub(w.blankSince))
}

// turn records a change of the incarnation.
func (w *Watch) turn() {
	if slices.Contains(w.recent, w.current) {
		w.turns++
		return
	}
	w.recent = append(w.recent, w.current)
	if len(w.recent) > recentMax {
		w.recent = slices.Delete(w.recent, 0, 1)
	}
}

// inTurn returns how often an incarnation has come back lately. If that is too often, it
// also returns an error: several servers answer, and nobody can be elected.
func (w *Watch) inTurn() (turns int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turns >= turnsMax {
		err = fmt.Errorf("%w (incarnations %s): nobody can be elected; let all candidates use one server",
			errInTurn, strings.Join(w.recent, ", "))
	}
	return w.turns, err
}

var errInTurn = errors.New("several servers answer in turn at the address of the store")

// Incarnation returns the one that was seen last; empty for none.
func (w *Watch) Incarnation() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// check returns an error for a lease that is too long (incarnation-I2).
func (w *Watch) check(r record.Record) error {
	lease := time.Duration(r.LeaseMs) * time.Millisecond
	if r.Nonce == "" || lease <= w.leaseMax {
		return nil
	}
	return election.Permanent(fmt.Errorf("%w: %v, at most %v is allowed here; ask for a shorter lease, or raise "+
		"LeaseMax (lease-max in the URL) alike in all candidates that share the store's table, hash or bucket, of whatever election", errLease, lease, w.leaseMax))
}

var errLease = errors.New("the lease is too long")
