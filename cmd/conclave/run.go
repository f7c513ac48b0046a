package main

import (
	"time"

	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/cli"
	"github.com/spf13/cobra"
)

const runLong = `Runs a command while this process leads an election, and not a moment longer.

The command finds CONCLAVE_TOKEN, CONCLAVE_ELECTION and CONCLAVE_ID in its
environment. The token grows with every leadership: pass it along, so that
whoever is acted upon can refuse an older one. When the leadership ends, the
command and all its descendants are told to end (SIGTERM), and killed after the
grace, before anybody else may lead. Signals are passed on.

Without a store, elections are held among the processes of this machine and
user, in $XDG_STATE_HOME/conclave.

Exit codes: that of the command, or 128 and the number of the signal that ended
it; 75 the leadership was lost; 126 and 127 the command could not be started; 1
the election could not be held; 2 wrong command line.`

func newRun() *cobra.Command {
	v := &candidate{}
	var grace time.Duration
	c := &cobra.Command{
		Use:   "run --election NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while this process leads",
		Long:  runLong,
		Example: `  conclave run --election demo -- sh -c 'echo leading with $CONCLAVE_TOKEN; sleep 30'
  conclave run --election billing/nightly --store zk://zk1:2181,zk2:2181 --forever -- /opt/billing/worker`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage("put it behind two dashes: conclave run --election NAME -- COMMAND", "no command given")
			}
			elector, end, err := v.elector(c)
			if err != nil {
				return err
			}
			code, err := supervise.Run(c.Context(), elector, supervise.Command{Args: args, Grace: grace})
			end()
			if err != nil {
				err = cli.Failed(err, runHint(code))
			}
			return &exitError{code, err}
		},
	}
	v.add(c)
	c.Flags().DurationVar(&grace, "grace", supervise.GraceDefault, "time between SIGTERM and SIGKILL; a leadership that is being lost leaves less")
	return c
}

// runHint says what to do about the end of a run.
func runHint(code int) string {
	switch code {
	case supervise.ExitLost:
		return "the command was stopped because the leadership could not be kept; call again to stand in line, or use --forever"
	case supervise.ExitNotFound, supervise.ExitNotExecutable:
		return "the command behind -- must be a program in PATH or a path to one"
	case supervise.ExitError:
		return "is the store there? name it with --store or CONCLAVE_STORE; `conclave restore-token` mends a lost or damaged state file"
	}
	return "conclave run --help lists the exit codes"
}
