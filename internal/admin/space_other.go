//go:build !linux && !darwin

package admin

// Space is not known on this system.
func Space(string) (bytes, free float64, ok bool) { return 0, 0, false }
