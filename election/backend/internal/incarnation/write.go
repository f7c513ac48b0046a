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
	// Put is one compare and set, which refuses what I1 forbids.
	Put(ctx context.Context, name string, r record.Record, version string) (Outcome, error)
	// Settled tells the incarnation of the store, and whether it is settled.
	Settled(ctx context.Context) (incarnation string, settled bool, err error)
	// Settle marks the incarnation as settled, if it still is the store's.
	Settle(ctx context.Context, incarnation string) error
}

// Outcome is the answer to a Put.
type Outcome struct {
	// Version is that of the record that was written, empty if it was not:
	// because it had another version, or because it was Refused (I1).
	Version string
	Refused bool
	// Incarnation is that of the store, empty if it did not matter.
	Incarnation string
}

// Write is the Write of a record.Store. A write that takes an election under
// an incarnation that is not settled waits until it may be, and then ends in a
// conflict: the candidate looks again, and counts its lease from now.
func (w *Watch) Write(ctx context.Context, s Store, name string, r record.Record, version string) (string, error) {
	if err := w.check(r); err != nil {
		return "", err
	}
	outcome, err := s.Put(ctx, name, r, version)
	if err != nil {
		return "", err
	}
	if outcome.Incarnation != "" {
		w.See(outcome.Incarnation)
	}
	switch {
	case outcome.Version != "":
		return outcome.Version, nil
	case outcome.Refused:
		if err := w.settle(ctx, s, outcome.Incarnation); err != nil {
			return "", err
		}
		return "", touch(ctx, s, name, version)
	}
	return "", record.ErrConflict
}

// settle waits until the incarnation may be settled and settles it, or until
// another candidate has, or another incarnation has come.
func (w *Watch) settle(ctx context.Context, s Store, incarnation string) error {
	for {
		left := w.See(incarnation)
		if left == 0 {
			return s.Settle(ctx, incarnation)
		}
		timer := time.NewTimer(min(left, w.pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		now, settled, err := s.Settled(ctx)
		if err != nil || settled || now != incarnation {
			return err
		}
	}
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
