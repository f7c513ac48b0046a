package election

import "context"

// leadershipKey is the key of the Leadership in the context that the function gets.
type leadershipKey struct{}

// FromContext returns the leadership that ctx belongs to: ctx is the context that Run passed to
// the function, or is derived from it. So code deep in a call chain can send the token without
// having it as a parameter.
func FromContext(ctx context.Context) (Leadership, bool) {
	lead, ok := ctx.Value(leadershipKey{}).(Leadership)
	return lead, ok
}

// Value adds the Leadership to the values of the context that Run passes to the function.
func (c *leaderContext) Value(key any) any {
	if key == (leadershipKey{}) {
		return Leadership{c.term}
	}
	return c.Context.Value(key)
}
