//go:build !labcarried

package labsite

// carried is empty: the machines are built when they are wanted.
var carried Machines
