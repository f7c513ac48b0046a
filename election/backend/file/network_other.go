//go:build !linux

package file

// refuseNetwork cannot tell file systems apart here and trusts the caller.
func refuseNetwork(string) error { return nil }
