package election

import "context"

// leadershipKey is under which the context of a function knows its Leadership.
type leadershipKey struct{}

// FromContext returns the leadership in whose function ctx was made: ctx is the
// one that Run gave to the function, or comes from it. So what is called deep
// below can send the token along without being handed it.
func FromContext(ctx context.Context) (Leadership, bool) {
	lead, ok := ctx.Value(leadershipKey{}).(Leadership)
	return lead, ok
}

// Value knows the leadership beside what the context of Run holds.
func (c *leaderContext) Value(key any) any {
	if key == (leadershipKey{}) {
		return Leadership{c.term}
	}
	return c.Context.Value(key)
}
