// Package command is the command line of conclave and of conclave-stores.
//
// It holds flags and wiring, one file per subcommand; what the subcommands
// share is in cmd/conclave/internal/cli, what they do is in the packages of the
// root module. Exit codes are those of package cli, and for run those of
// election/supervise.
package command

import (
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election/supervise"
)

// Main runs the command line of this process and returns its exit code. Call it once.
// stores opens the stores whose SDKs the program links, by the schemes of WithSDK; places
// does the same for places of backups. Each has all of them or none.
func Main(stores map[string]Open, places map[string]OpenPlace) int {
	linked, linkedPlaces = stores, places
	if err := checkVersion(); err != nil {
		return cli.Report(os.Stderr, err)
	}
	return start(os.Args[1:])
}

// start distinguishes the guardian of `conclave run`, which is this program again, from a
// command of the user.
func start(args []string) int {
	if len(args) > 0 && args[0] == supervise.GuardianArg {
		return supervise.Guardian()
	}
	return execute(args)
}
