package incarnation

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/election/record"
)

// Store is a store that compares its incarnation in the same atomic step as a write.
type Store interface {
	// Read is the Read of record.Store.
	Read(ctx context.Context, name string) (record.Record, string, error)
	// Put is one compare and set. It refuses what incarnation-I1 forbids, and a new holder
	// in a record whose Incarnation is not that of the store.
	Put(ctx context.Context, name string, r record.Record, version string) (Outcome, error)
	// Adopt marks the Incarnation of a refusal as adopted, if Incarnation and Blank are
	// still those of the store.
	Adopt(ctx context.Context, refusal Outcome) error
}

// Outcome is the answer to a Put.
type Outcome struct {
	// Version is that of the record that was written. It is empty if the record was not
	// written, because its version had changed or because the write was Refused.
	Version string
	Refused bool
	// Incarnation is that of the store; empty if the write did not depend on it.
	Incarnation string
	// Blank identifies a store in which no incarnation is adopted; a Refused write returns
	// it. The store keeps it until one is adopted, or until the store loses all its data
	// and chooses another. It is empty if an incarnation is adopted, and for stores that
	// lose nothing while their incarnation lasts.
	Blank string
}

// Write implements the Write of a record.Store. A write that takes an election under an
// incarnation that is not adopted is postponed (record.NotYetError). Once the incarnation
// may be adopted, the write adopts it and returns a conflict, so that the candidate reads
// again.
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
		return "", &record.NotYetError{} // read again under this incarnation first
	case outcome.Incarnation != r.Incarnation:
		return "", &record.NotYetError{After: w.pause}
	case left > 0:
		return "", &record.NotYetError{After: min(left, w.pause)} // another candidate may adopt it sooner
	}
	if err := s.Adopt(ctx, outcome); err != nil {
		return "", err
	}
	return "", touch(ctx, s, name, version)
}

// touch makes the conflict true. In any case the version is no longer current afterwards,
// so an earlier write that expected it cannot take effect any more.
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
