// Command conclave is the server, the leader-election tools and the client of
// the command line, in one binary.
//
// It holds flags and wiring, one file per subcommand; what the subcommands
// share is in cmd/conclave/internal/cli, what they do is in the packages of the
// root module. Exit codes are those of package cli, and for run those of
// election/supervise.
package main

import (
	"os"

	"github.com/conclave-project/conclave/election/supervise"
)

func main() { os.Exit(start(os.Args[1:])) }

// start tells the guardian of `conclave run`, which is this binary again, from
// a command of the user's.
func start(args []string) int {
	if len(args) > 0 && args[0] == supervise.GuardianArg {
		return supervise.Guardian()
	}
	return execute(args)
}
