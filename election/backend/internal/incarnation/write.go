package incarnation

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/election/record"
)

// Store is a store that compares its incarnation in the atomic step of a write.
type Store interface {
	// Read is that of record.Store.
	Read(ctx context.Context, name string) (record.Record, string, error)
	// Put is one compare and set, which refuses what incarnation-I1 forbids, and a new holder
	// in a record of another Incarnation than the store's.
	Put(ctx context.Context, name string, r record.Record, version string) (Outcome, error)
	// Adopt marks the Incarnation of a refusal as adopted, if it and Blank still are the store's.
	Adopt(ctx context.Context, refusal Outcome) error
}

// Outcome is the answer to a Put.
type Outcome struct {
	// Version is that of the record that was written, empty if it was not:
	// because it had another version, or because it was Refused.
	Version string
	Refused bool
	// Incarnation is that of the store, empty if it did not matter.
	Incarnation string
	// Blank, of a write that was Refused, is a mark of a store in which no incarnation is
	// adopted, and which it keeps until one is or it loses all; another mark then. It is
	// empty if one is adopted, and for stores that lose nothing as long as their
	// incarnation lasts.
	Blank string
}

// Write is the Write of a record.Store. A write that takes an election under an
// incarnation that is not adopted is put off until it may be (record.NotYetError);
// a write that adopts the incarnation ends in a conflict: the candidate looks again.
func (w *Watch) Write(ctx context.Context, s Store, name string, r record.Record, version string) (string, error) {
	if err := w.check(r); err != nil {
		return "", err
	}
	outcome, err := s.Put(ctx, name, r, version)
	if err != nil {
		return "", err
	}
	left := time.Duration(0)
	if outcome.Incarnation != "" {
		left = w.See(outcome.Incarnation)
	}
	if outcome.Refused {
		left = max(left, w.seeBlank(outcome.Blank))
	}
	turns, inTurn := w.inTurn()
	switch {
	case outcome.Version != "":
		return outcome.Version, nil
	case !outcome.Refused:
		return "", record.ErrConflict
	case left > 0 && inTurn != nil:
		return "", inTurn
	case outcome.Incarnation != r.Incarnation && turns == 0:
		return "", &record.NotYetError{} // look again under this one first
	case outcome.Incarnation != r.Incarnation:
		return "", &record.NotYetError{After: w.pause}
	case left > 0:
		return "", &record.NotYetError{After: min(left, w.pause)} // others may adopt it sooner
	}
	if err := s.Adopt(ctx, outcome); err != nil {
		return "", err
	}
	return "", touch(ctx, s, name, version)
}

// touch makes the conflict true: whatever the outcome, the version is gone, so
// that no earlier write that expected it can take effect any more.
func touch(ctx context.Context, s Store, name, version string) error {
	seen, now, err := s.Read(ctx, name)
	if err != nil {
		return err
	}
	if now == version {
		if _, err := s.Put(ctx, name, seen, version); err != nil {
			return err
		}
	}
	return record.ErrConflict
}
