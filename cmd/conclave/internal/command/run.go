package command

import (
	"errors"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/spf13/cobra"
)

const runLong = `Runs a command while this process leads an election, and not a moment longer.

The command finds CONCLAVE_TOKEN, CONCLAVE_ELECTION, CONCLAVE_ID and
CONCLAVE_DEADLINE in its environment. The token grows with every leadership: pass
it along with every request, so that a resource can refuse an older one. The
deadline is in seconds since boot, as in /proc/uptime: the time until which the
leadership was proved when the command began; renewals extend it. When the
leadership ends, the command and all its descendants are sent SIGTERM, and are
killed after the grace, before anybody else may lead. Signals are passed on. At
the end, a store that does not answer is asked for up to five seconds to release
the election, which otherwise expires there; another SIGTERM or SIGINT ends that
wait.

--on-elected runs before the command, and must end with code 0. --on-lost runs
after the command and its descendants have ended, once for every leadership that
began, even if this process was killed; it finds CONCLAVE_REASON. --health runs
repeatedly: a candidate that fails it gives up the leadership, and does not
campaign until it passes. All three are lines for sh; their output goes to
standard error.

Without a store, elections are held among the processes of this user on this
machine, in $XDG_STATE_HOME/conclave. These are the stores and their URLs:

`

const runCodes = `

Exit codes: that of the command, or 128 plus the number of the signal that ended
it; 75 the leadership was lost or given up; 126 and 127 the command could not be
started; 3 the store was not reached within --connect-timeout; 1 the election
could not be held, or --on-elected failed; 2 wrong command line.`

// runFlags are the flags of run in addition to those of every candidate.
type runFlags struct {
	candidate
	command     supervise.Command
	health      string
	healthEvery time.Duration
	failures    int
}

func (v *runFlags) add(c *cobra.Command) {
	v.candidate.add(c)
	f := c.Flags()
	addForever(c, &v.forever)
	v.addGrace(c, &v.command)
	f.StringVar(&v.command.OnElected, "on-elected", "", "`LINE` that sh runs before the command")
	f.StringVar(&v.command.OnLost, "on-lost", "", "`LINE` that sh runs after the command has ended")
	f.DurationVar(&v.command.HookLimit, "hook-limit", supervise.HookLimitDefault, "time after which --on-elected or --on-lost is killed")
	f.StringVar(&v.health, "health", "", "`LINE` that sh runs repeatedly, and that must end with code 0")
	f.DurationVar(&v.healthEvery, "health-every", 0, "pause between two health checks, and the time that each may take (default a quarter of the lease)")
	f.IntVar(&v.failures, "health-failures", election.HealthFailuresDefault, "how many health checks in a row must fail to give up the leadership")
}

// checkHealth returns an error for flags of a health check that would have no effect.
func (v *runFlags) checkHealth(c *cobra.Command) error {
	for _, name := range []string{"health-every", "health-failures"} {
		if c.Flags().Changed(name) && v.health == "" {
			return cli.Usage("name the check with --health LINE", "--%s has no effect without --health", name)
		}
	}
	if c.Flags().Changed("health-every") && v.healthEvery == 0 { // not the default: somebody asked for none
		return cli.Usage("write for example --health-every 2s", "--health-every 0s: must be 1ms or more")
	}
	if v.failures < 1 {
		return cli.Usage("write for example --health-failures 1", "--health-failures %d: must be 1 or more", v.failures)
	}
	return nil
}

func addForever(c *cobra.Command, forever *bool) {
	c.Flags().BoolVar(forever, "forever", false, "campaign again after every leadership")
}

func (v *candidate) addGrace(c *cobra.Command, command *supervise.Command) {
	c.Flags().DurationVar(&v.options.EndLimit, "end-limit", 0, "how long a process that cannot be killed may keep the election after it was told to end; then others lead at the same time; -1s is for ever (default the sum of the grace, the hook limit and the lease)")
	c.Flags().DurationVar(&command.Grace, "grace", supervise.GraceDefault, "time between SIGTERM and SIGKILL; a leadership that is being lost leaves less")
}

func newRun() *cobra.Command {
	v := &runFlags{}
	c := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while this process leads",
		Long:  runLong + storeTable() + runCodes,
		Example: `  conclave run demo -- sh -c 'echo leading with $CONCLAVE_TOKEN; sleep 30'
  conclave run billing/nightly --store zk://zk1:2181,zk2:2181 --forever -- /opt/billing/worker
  conclave run vip --health 'pidof haproxy' --on-elected 'ip addr add 10.0.0.9/24 dev eth0' \
    --on-lost 'ip addr del 10.0.0.9/24 dev eth0' --forever -- sleep infinity`,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if v.command.Args, err = v.takeCommand(c, args); err != nil {
				return err
			}
			if err := v.checkHealth(c); err != nil {
				return err
			}
			if v.health != "" {
				v.command.Health = &supervise.Health{Command: v.health}
				v.options.Health, v.options.HealthEvery, v.options.HealthFailures =
					v.command.Health.Check, v.healthEvery, v.failures
			}
			return v.run(c, v.command)
		},
	}
	v.add(c)
	return c
}

// run supervises the command and ends with its exit code.
func (v *candidate) run(c *cobra.Command, command supervise.Command) error {
	if v.options.EndLimit == 0 {
		v.options.EndLimit = command.Grace + max(command.HookLimit, 0) + max(v.lease, election.LeaseDefault)
	}
	crashBySignal()
	began := time.Now()
	s, err := v.elector(c)
	if err != nil {
		return err
	}
	command.Wait = waitLeft(command.Wait, time.Since(began))
	command.OnRemark = func(err error) {
		if v.forever || !errors.Is(err, supervise.ErrOnElected) { // else the error is the result of the run
			s.news.remark(err)
		}
	}
	code, err := supervise.Run(c.Context(), s.Elector, command)
	s.close()
	if err != nil {
		err = cli.Failed(err, runHint(code, err))
	}
	return &exitError{code, err}
}

// waitLeft returns how long to wait for the first leadership after the store was reached:
// the rest of the time, but enough for one attempt.
func waitLeft(wait, reached time.Duration) time.Duration {
	return max(wait-reached, min(wait, attemptMax))
}

// runHint returns a hint for the end of a run.
func runHint(code int, err error) string {
	if errors.Is(err, supervise.ErrOnElected) {
		return "the command is started only after --on-elected has ended with code 0, within --hook-limit"
	}
	if errors.Is(err, supervise.ErrSystem) {
		return "run commands on Linux or macOS; here, `conclave elect` works, and package election in a Go program"
	}
	if errors.Is(err, file.ErrDamaged) {
		return "run `conclave restore-token NAME --token N`, where N is at least the highest token that was ever used"
	}
	switch code {
	case supervise.ExitLost:
		return "the command was stopped because the leadership ended first; run it again to campaign again, or use conclave run --forever"
	case supervise.ExitWaited:
		return "`conclave leader` shows who leads; wait longer with --wait"
	case supervise.ExitNotFound, supervise.ExitNotExecutable:
		return "the command after -- must be a program in PATH or a path to one"
	case supervise.ExitError:
		return "check that it is the right store, and that you may use it; --store or CONCLAVE_STORE names it"
	}
	return "conclave run --help lists the exit codes"
}
