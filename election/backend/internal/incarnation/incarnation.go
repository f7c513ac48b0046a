// Package incarnation keeps elections apart from leaderships that a store has
// forgotten.
//
// A store that fails over to a copy that lagged behind, is restored, or loses
// what it had not written to disk, may forget a grant or a renewal whose
// holder knows nothing of that. Where a store has a name for the course of its
// history that changes whenever that may have happened (its incarnation), this
// is what follows from it:
//
//	incarnation-I1  Nobody takes an election under an incarnation that is not
//	                adopted. It is adopted when one candidate has seen it for
//	                LeaseMax by its own clock: whatever was granted before it
//	                has run out. The store keeps which incarnation is adopted
//	                beside its records, and compares it in the same atomic step
//	                as the version. One that has none adopted may have lost it, with
//	                grants of the same incarnation: how long that was seen counts
//	                from then on (Outcome.Blank).
//	incarnation-I2  No lease is longer than LeaseMax. One incarnation is adopted for
//	                all elections that share the table, hash or bucket: the
//	                candidates of all of them must have the same LeaseMax.
//	incarnation-I4  A record that names its first holder under an incarnation
//	                has a token greater than any that was forgotten: by a stride
//	                that no clock's error and no number of grants reaches
//	                (record-R4). Only a second failover that forgets also that
//	                the first was adopted leaves it to the wall clocks, which
//	                must then agree within LeaseMax.
//	incarnation-I3  Renewals, releases and places waiting do not wait: a leader
//	                whose record is still there goes on.
//	incarnation-I5  A candidate that sees incarnations come and go asks no more
//	                often than one that waits, and is told of it: an address may
//	                lead to several servers in turn, which elect nobody.
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

// LeaseMaxDefault is the longest lease unless another is chosen.
const LeaseMaxDefault = 15 * time.Second

// Watch is what one process has seen of the incarnations of a store. Its
// methods may be called by several goroutines.
type Watch struct {
	leaseMax time.Duration
	pause    time.Duration // between tries, for others may have adopted it
	now      func() clock.Instant

	mu      sync.Mutex
	current string
	since   clock.Instant
	recent  []string // seen since one of them was the only one for leaseMax
	turns   int      // how often one of them came back

	blank      string // the Outcome.Blank that was told last
	blankSince clock.Instant
}

const (
	recentMax = 8
	// turnsMax is how often an incarnation may come back before that is an error: in a
	// failover a connection to the former server may still answer.
	turnsMax = 3
)

// NewWatch returns one for leases of at most leaseMax, zero being the default.
func NewWatch(leaseMax time.Duration) *Watch {
	if leaseMax == 0 {
		leaseMax = LeaseMaxDefault
	}
	return &Watch{leaseMax: leaseMax, pause: time.Second, now: clock.Now}
}

// See notes that an answer of the store came under this incarnation, and
// returns how long it is to be watched still until it may be adopted.
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

// seeBlank notes the Outcome.Blank of a refusal, and returns how long it is to be watched
// still until an incarnation may be adopted.
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

// turn notes another incarnation than the last answer's.
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

// inTurn says how often an incarnation came back lately, and when that is too often, as an
// error: several servers answer, and nobody can be elected.
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

// Incarnation is the one that was seen last, empty for none.
func (w *Watch) Incarnation() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// check refuses a lease that is too long (incarnation-I2).
func (w *Watch) check(r record.Record) error {
	lease := time.Duration(r.LeaseMs) * time.Millisecond
	if r.Nonce == "" || lease <= w.leaseMax {
		return nil
	}
	return election.Permanent(fmt.Errorf("%w: %v, at most %v is allowed here; ask for a shorter lease, or raise "+
		"LeaseMax (lease-max in the URL) alike in all candidates that share the store's table, hash or bucket, of whatever election", errLease, lease, w.leaseMax))
}

var errLease = errors.New("the lease is too long")
