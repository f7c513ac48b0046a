// Package invariant holds assertions that stay on in production: a server that
// finds its own state impossible stops, before it tells anybody.
package invariant

// Check stops the process if what must hold does not. The message says which
// rule is broken, by its number if it has one.
func Check(holds bool, message string) {
	if !holds {
		panic("invariant broken: " + message)
	}
}
