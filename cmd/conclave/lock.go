package main

import (
	"errors"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/spf13/cobra"
)

const lockLong = `Waits for a lock, runs a command once while it is held, and gives it back.

A lock is an election: whoever leads it holds it. Unlike the lock commands of
other stores, this one kills the command with all its descendants before the
store can give the lock to anybody else, and the command finds a token in
CONCLAVE_TOKEN that grows with every holder: whoever is acted upon can refuse an
older one.

Exit codes: that of the command, or 128 and the number of the signal that ended
it; 69 the lock was not had within --wait; 75 it was lost or had to be given up;
126 and 127 the command could not be started; 1 the store cannot be used; 2
wrong command line.`

func newLock() *cobra.Command {
	v := &candidate{}
	var command supervise.Command
	c := &cobra.Command{
		Use:   "lock NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command once, while nobody else does",
		Long:  lockLong,
		Example: `  conclave lock migrations -- ./migrate up
  conclave lock nightly/report --wait 1m --store zk://zk1:2181 -- ./report`,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if command.Args, err = v.takeCommand(c, args); err != nil {
				return err
			}
			if command.Wait < 0 {
				return cli.Usage("write for example --wait 30s", "--wait %v is negative", command.Wait)
			}
			err = v.run(c, command)
			var exit *exitError
			if errors.As(err, &exit) && exit.code == supervise.ExitWaited {
				exit.err = cli.Failed(errors.New("lock "+v.name+": not had within "+command.Wait.String()), runHint(exit.code))
			}
			return err
		},
	}
	v.add(c)
	v.addGrace(c, &command)
	c.Flags().DurationVar(&command.Wait, "wait", 0*time.Second, "how long to wait for the lock, 0 without end")
	return c
}
