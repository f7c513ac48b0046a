package election

import "context"

// leadershipKey is under which the context of a function knows its Leadership.
type leadershipKey struct{}

// FromContext returns the leadership that ctx belongs to: ctx is the context that Run passed to
// the function, or is derived from it. So code deep in a call chain can send the token without
// having it as a parameter.
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
