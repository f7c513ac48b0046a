//go:build !unix

package command

import "errors"

// replaceProcess fails: a process cannot change its program on this system, and a child in
// its place would outlive it and what it holds.
func replaceProcess(string, []string, []string) error {
	return errors.New("this system cannot do that: run " + storesProgram + " with the same arguments instead")
}
