package fence

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/election"
)

// tokenKey is under which a context keeps a token that came from elsewhere.
type tokenKey struct{}

// WithToken returns a context in whose name calls are made with this token. The
// context of a leader's function needs it not: it knows its leadership.
func WithToken(ctx context.Context, token election.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the token with which calls in this context are made: that of
// WithToken, else that of the leadership in whose function the context was
// made. An error says that there is none (ErrNoToken), or that the leadership
// has ended: then nothing must be sent any more.
func TokenOf(ctx context.Context) (election.Token, error) {
	if token, ok := ctx.Value(tokenKey{}).(election.Token); ok && token != 0 {
		return token, nil
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
