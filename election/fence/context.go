package fence

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/internal/carried"
)

// WithToken returns a context whose calls are made with this token. The context of a leader's
// function does not need it: it already carries its leadership.
func WithToken(ctx context.Context, token election.Token) context.Context {
	return carried.With(ctx, carried.Token{Value: uint64(token), Inside: around(ctx)})
}

// around returns the leadership whose function the context was made in; nil for none.
func around(ctx context.Context) any {
	if lead, ok := election.FromContext(ctx); ok {
		return lead
	}
	return nil
}

// TokenOf returns the token with which calls in this context are made: that of WithToken or of
// the leadership in whose function the context was made, whichever is the innermost, or that of a
// holders.RWLock (Held.Token). An error means that there is none (ErrNoToken), or that the
// leadership or the lock has ended: nothing may be sent then.
func TokenOf(ctx context.Context) (election.Token, error) {
	if t, ok := carried.Of(ctx, around(ctx)); ok && t.Value != 0 {
		if t.Check != nil {
			if err := t.Check(); err != nil {
				return 0, fmt.Errorf("fence: the lock is not held any more: %w", err)
			}
		}
		return election.Token(t.Value), nil
	}
	lead, ok := election.FromContext(ctx)
	if !ok {
		return 0, fmt.Errorf("%w in the context: use that of the leader's function, or fence.WithToken", ErrNoToken)
	}
	if err := lead.Err(); err != nil {
		return 0, fmt.Errorf("fence: the leadership has ended: %w", err)
	}
	return lead.Token(), nil
}
