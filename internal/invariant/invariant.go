// Package invariant holds assertions that stay on in production: a server that
// finds its own state impossible stops before it sends anything.
package invariant

// Check stops the process if holds is false. The message names the broken rule,
// by its number if it has one.
func Check(holds bool, message string) {
	if !holds {
		panic("invariant broken: " + message)
	}
}
