// Package cli holds what the subcommands of conclave share: how answers are
// printed, how errors become text with a hint and an exit code, and how servers
// and credentials are given on the command line.
//
// What always holds:
//
//	cli-L1  Answers go to the standard output, everything else to the standard
//	        error.
//	cli-L2  With JSON chosen, the standard output holds only JSON: one value,
//	        or one value a line for continuous output. Times are RFC 3339,
//	        zxids and session ids are strings as ZooKeeper prints them.
//	cli-L3  Every error is one line "conclave: what was being done: why" and one
//	        line "hint: what to do about it". With JSON chosen it is one line of
//	        JSON on the standard error: error, hint, exit.
//
// It knows no flags and no commands; those are in cmd/conclave, so a program
// that imports the root module does not need their dependencies.
package cli

// Exit codes. `conclave run` has additional ones, see docs/commands.md.
const (
	ExitOK       = 0
	ExitFailed   = 1 // the operation failed or was refused
	ExitUsage    = 2 // wrong command line or configuration
	ExitNoServer = 3 // no server, or not all, could be reached; or the connection was lost
	ExitNotFound = 4 // what was asked for does not exist: no such znode, nobody leads
	ExitDamaged  = 5 // check found damage
)
