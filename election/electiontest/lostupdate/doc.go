// Package lostupdate repeats an experiment that Jepsen made with etcd's locks: several processes
// take turns at leading, the leader reads, changes and writes registers, and processes are
// stopped at random for longer than the lease. An update is lost if it was acknowledged but is
// not in the history of the final value.
//
// Given a way to start a process, it returns the figures for three registers, which every leader
// updates in each turn:
//
//	naive    it is written without another look
//	checked  the process looks whether it still leads, and then writes
//	fenced   it refuses reads and writes with a token older than it has seen
//
// The registers are served by a server of their own, which is never stopped. Reads carry the
// token too: with its first read, a new leader bars the old one, whose write could otherwise
// come between that read and the write that follows it.
//
// The protocol is lines of text, so that processes in any language can take part:
//
//	read NAME TOKEN             ->  value ID | stale
//	write NAME TOKEN ID PARENT  ->  done | stale
//
// ID names the update. It differs between any two updates and contains no space. PARENT is the
// ID that was read, "-" at first. A process writes "elected TOKEN" to its standard output when
// it begins to lead, and ends when its input ends.
package lostupdate

// The registers.
const (
	Naive   = "naive"
	Checked = "checked"
	Fenced  = "fenced"
)

// Registers lists them in the order of the tables.
var Registers = []string{Naive, Checked, Fenced}

// none is the value before the first update.
const none = "-"
