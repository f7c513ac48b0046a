// Package carried lets a context carry a fencing token other than that of the leadership in
// whose function the context was made.
//
// Given a context, the package decides which token a call is made with. What always holds:
//
//	carried-C1  Of the tokens and leaderships around a context, the innermost counts.
//
// The package sends nothing, and knows no resource.
package carried

import "context"

// Token is a token that a context carries.
type Token struct {
	Value uint64
	// Check returns why the token must not be used any longer; nil is for a token that may
	// always be used.
	Check func() error
	// Inside is the leadership around the context to which the token was added, nil if there was
	// none. If a call finds a different leadership, that one has begun inside the context.
	Inside any
}

type key struct{}

// With returns a context that carries a token.
func With(ctx context.Context, t Token) context.Context { return context.WithValue(ctx, key{}, t) }

// Of returns the token that a context carries, unless a leadership that began inside it takes
// precedence. Leads is the leadership around the context, nil if there is none.
func Of(ctx context.Context, leads any) (Token, bool) {
	t, ok := ctx.Value(key{}).(Token)
	return t, ok && t.Inside == leads
}
