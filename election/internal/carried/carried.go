// Package carried is how a context carries a fencing token that is not that of the leadership in
// whose function it was made.
//
// In go contexts and tokens, out comes the token with which a call is to be made. What always
// holds:
//
//	carried-C1  Of tokens and leaderships around a context the innermost counts.
//
// It sends nothing, and knows no resource.
package carried

import "context"

// Token is one that a context carries.
type Token struct {
	Value uint64
	// Check tells why it must not be used any more; nil is one that may always be.
	Check func() error
	// Inside is the leadership around the context that was given the token, nil if there was
	// none. One that a call finds instead has begun inside of it.
	Inside any
}

type key struct{}

// With returns a context that carries a token.
func With(ctx context.Context, t Token) context.Context { return context.WithValue(ctx, key{}, t) }

// Of returns the token that a context carries, unless a leadership that has begun inside of it
// counts. Leads is the leadership around the context, nil if there is none.
func Of(ctx context.Context, leads any) (Token, bool) {
	t, ok := ctx.Value(key{}).(Token)
	return t, ok && t.Inside == leads
}
