//go:build !labcarried

package labsite

// carried is empty: the machines are built on demand.
var carried Machines
