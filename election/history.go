package election

import "slices"

// OneByOne returns a history, oldest leadership first, in which none begins before the previous
// one has ended. On a Backend whose Traits say Exclusive, this is what happened. The recorded
// times may overlap all the same: they come from the wall clocks of several candidates, and if
// a holder was killed, its successor records the end of its leadership, a moment after the
// successor was elected. Backends call OneByOne on what they show.
func OneByOne(history []Tenure) []Tenure {
	shown := slices.Clone(history)
	for i := 1; i < len(shown); i++ {
		before, next := &shown[i-1], &shown[i]
		if next.Since.Before(before.Since) {
			next.Since = before.Since
		}
		if before.Until.IsZero() || before.Until.After(next.Since) {
			before.Until = next.Since
		}
		if before.Reason == "" {
			before.Reason = ReasonExpired.String()
		}
	}
	for i := range shown {
		if one := &shown[i]; !one.Until.IsZero() && one.Until.Before(one.Since) {
			one.Until = one.Since
		}
	}
	return shown
}
