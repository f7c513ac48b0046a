package command

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/spf13/cobra"
)

const lockLong = `Waits for a lock, runs a command once while it is held, and releases it.

A lock is an election: its leader holds the lock. Unlike the lock commands of
other stores, this one kills the command and all its descendants before the store
can give the lock to anybody else. The command finds a token in CONCLAVE_TOKEN
that grows with every holder, so that a resource can refuse an older one.

A store without a clock of its own does not know whether the holder is alive. With
such a store, --no-wait watches until it knows: for a quarter of the holder's
lease, or, if the holder was killed, until its lease has run out. It also waits
while a store that was restarted grants nothing (lease-max in its URL).

Exit codes: that of the command, or 128 plus the number of the signal that ended
it; 69 the lock was not acquired within --wait, or --no-wait found it held; 75 it
was lost or had to be released; 126 and 127 the command could not be started; 3
the store was not reached within --wait or --connect-timeout; 1 the store cannot
be used; 2 wrong command line.`

const (
	// attemptMax is how long to wait at first for a store with --no-wait. It is also the
	// shortest wait for the lock if reaching the store has used up the time.
	attemptMax = 2 * time.Second
	// slowMax is how long a store may take for its first answer, whatever --wait says.
	slowMax = 10 * time.Second
)

func newLock() *cobra.Command {
	v := &candidate{}
	var command supervise.Command
	var noWait bool
	c := &cobra.Command{
		Use:   "lock NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command once, while nobody else holds the lock",
		Long:  lockLong,
		Example: `  conclave lock migrations -- ./migrate up
  conclave lock cleanup --no-wait -q -- ./cleanup     # as flock -n: nothing is said if it is held
  conclave lock nightly/report --wait 1m --store zk://zk1:2181 -- ./report`,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if command.Args, err = v.takeCommand(c, args); err != nil {
				return err
			}
			if command.Wait < 0 {
				return cli.Usage("write for example --wait 30s", "--wait %v is negative", command.Wait)
			}
			command.Try = noWait
			if v.connect == 0 && (noWait || command.Wait > 0) {
				v.connect, v.slow = cmp.Or(command.Wait, attemptMax), slowMax
			}
			err = v.run(c, command)
			var exit *exitError
			if errors.As(err, &exit) && exit.code == supervise.ExitWaited {
				if v.quiet {
					return &exitError{code: exit.code} // without a text, so a cron job that skips its turn sends no mail
				}
				exit.err = v.notAcquired(exit.err, command.Wait)
			}
			return err
		},
	}
	v.add(c)
	v.addGrace(c, &command)
	c.Flags().DurationVar(&command.Wait, "wait", 0*time.Second, "how long to wait for the lock; 0 means no limit")
	c.Flags().BoolVar(&noWait, "no-wait", false, "end with code 69 at once if somebody holds the lock")
	c.MarkFlagsMutuallyExclusive("wait", "no-wait")
	return c
}

// notAcquired returns the error for a lock that others hold.
func (v *candidate) notAcquired(err error, wait time.Duration) error {
	var held *election.HeldError
	if errors.As(err, &held) {
		return cli.Failed(fmt.Errorf("lock %s: %s holds it", v.name, cli.Visible(held.View.Leader)),
			"`conclave leader "+v.name+"` shows who holds it; without --no-wait the command waits")
	}
	if wait < v.lease {
		return cli.Failed(fmt.Errorf("lock %s: not acquired within %v", v.name, wait),
			"`conclave leader` shows who leads; wait longer with --wait: less than a lease is too short after a holder was killed")
	}
	return cli.Failed(fmt.Errorf("lock %s: not acquired within %v", v.name, wait), runHint(supervise.ExitWaited, err))
}
