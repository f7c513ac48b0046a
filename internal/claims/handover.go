package claims

import (
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Nomination is the Editor of a holder that wants a candidate to lead next. Each
// edit makes the next step until the candidate is ready.
type Nomination struct {
	Nonce string        // of the holder
	ID    string        // of the candidate
	Until clock.Instant // by when the candidate must have appeared
	Ready bool          // set when the candidate has warmed up
}

var errNotReady = errors.New("the candidate could not warm up")

// Edit implements Editor.
func (n *Nomination) Edit(now clock.Instant, _ time.Time, seen Sight) (Record, bool, error) {
	record := seen.Record
	if record.Nonce != n.Nonce {
		return record, false, lost(record)
	}
	next := record.Next
	if next == nil || next.ID != n.ID || now >= seen.NextGoneAt() {
		if now >= n.Until {
			return record, false, fmt.Errorf("%w: %q", election.ErrNoCandidate, n.ID)
		}
		changed := record.Wanted != n.ID
		record.Wanted = n.ID
		return record, changed, nil
	}
	switch next.State {
	case StateReady:
		n.Ready = true
		return record, false, nil
	case StateNotReady:
		return record, false, errNotReady
	case StateNominated:
		return record, false, nil
	}
	chosen := *next
	chosen.State = StateNominated
	record.Wanted = n.ID
	return record.with(&chosen), true, nil
}

// Withdrawal is the Editor that restores the queue to its state before a nomination.
type Withdrawal struct{ Nonce string }

// Edit implements Editor.
func (w Withdrawal) Edit(_ clock.Instant, _ time.Time, seen Sight) (Record, bool, error) {
	record := seen.Record
	if record.Nonce != w.Nonce || record.Wanted == "" {
		return record, false, nil
	}
	record.Wanted = ""
	if record.Next != nil {
		plain := *record.Next
		plain.State = ""
		record.Next = &plain
	}
	return record, true, nil
}

// Asking is the Editor that leaves a request for the holder. Only a process
// that has watched the record for the time of a lease can know that the
// holder's lease has run out.
type Asking struct{ Request election.Request }

// Edit implements Editor.
func (a Asking) Edit(now clock.Instant, _ time.Time, seen Sight) (Record, bool, error) {
	record := seen.Record
	gone := record.Nonce == "" || now >= seen.VacantAt()
	if gone || a.Request.Token != 0 && a.Request.Token != record.Token {
		return record, false, election.ErrNoLeader
	}
	asked := a.Request
	asked.Token = record.Token
	if err := asked.Replaces(record.Request); err != nil {
		return record, false, err
	}
	record.Request = &asked
	return record, true, nil
}
