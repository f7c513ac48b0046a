package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of subcommands in the help.
const (
	groupServe = "serve"
	groupElect = "elect"
	groupZnode = "znode"
	groupFiles = "files"
)

const rootLong = `Conclave elects leaders, and serves ZooKeeper's clients.

  conclave dev                                   three servers to experiment with
  conclave run NAME -- COMMAND...                run a command on one machine at a time
  conclave ls / --server HOST:2181               look into any ZooKeeper

Answers go to standard output, everything else to standard error.
Exit codes: 0 done, 1 failed, 2 wrong command line or configuration, 3 no
server, 4 not found, 5 damage found. docs/commands.md lists them all.`

// execute runs one command line and returns the exit code.
func execute(args []string) int {
	root := newRoot()
	refuseShells(root)
	root.SetArgs(asZKCli(args))
	c, err := root.ExecuteContextC(context.Background())
	report := cli.Report
	if wantsJSON(c) {
		report = cli.ReportJSON
	}
	stderr := colored(c, os.Stderr)
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			said := make(chan struct{})
			go func() {
				defer close(said)
				report(stderr, exit.err)
			}()
			awaitDrained(said)
		}
		return exit.code
	}
	return report(stderr, usage(err))
}

// wantsJSON reports whether the flags of a command ask for JSON.
func wantsJSON(c *cobra.Command) bool {
	for name, value := range map[string]string{"json": "true", "output": "json"} {
		if f := c.Flags().Lookup(name); f != nil && f.Value.String() == value {
			return true
		}
	}
	return false
}

// colored wraps w as the --color flag of a command says.
func colored(c *cobra.Command, w io.Writer) io.Writer {
	when := "auto"
	if f := c.Flag("color"); f != nil {
		when = f.Value.String()
	}
	return cli.Color(w, when)
}

// addColor adds --color to all commands, and makes them refuse flags with an empty value.
func addColor(root *cobra.Command) {
	when := root.PersistentFlags().String("color", "auto", "bold headers and red errors: auto (on a terminal, unless NO_COLOR is set), always or never")
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(cli.Colors, cobra.ShellCompDirectiveNoFileComp))
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains(cli.Colors, *when) {
			return cli.Usage("write --color "+strings.Join(cli.Colors, ", --color "), "unknown --color %q", *when)
		}
		return void(c.Flags())
	}
}

// void returns an error for a flag that is given with an empty value, for instance from a
// variable that is not set. The command would run as if the flag were absent, with another
// server, moment or permission than intended.
func void(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch wait, parseErr := time.ParseDuration(f.Value.String()); {
		case saysNothing(f.Value) && f.Name != "metadata":
			err = cli.Usage("give it a value, or leave the flag out", "--%s is empty", f.Name)
		case f.Name == "timeout" && parseErr == nil && wait <= 0:
			err = cli.Usage("write for example --timeout 10s", "--timeout %v leaves no time", wait)
		}
	})
	return err
}

func saysNothing(v pflag.Value) bool {
	if several, ok := v.(pflag.SliceValue); ok {
		all := several.GetSlice()
		return len(all) == 0 || slices.Contains(all, "")
	}
	return v.Type() == "string" && v.String() == ""
}

// exitError is the exit code of a command that was run.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return "exit code of the command" }

func newRoot() *cobra.Command {
	var version bool // cobra's own flag needs text/template, with which the linker keeps every exported method
	root := &cobra.Command{
		Use:           "conclave",
		Short:         "Elects leaders, and serves ZooKeeper's clients",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,

		RunE: func(c *cobra.Command, _ []string) error {
			if !version {
				return c.Help()
			}
			_, err := io.WriteString(c.OutOrStdout(), versionLine())
			return err
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version of this program")
	addColor(root)
	root.AddGroup(
		&cobra.Group{ID: groupServe, Title: "Servers:"},
		&cobra.Group{ID: groupElect, Title: "Elections:"},
		&cobra.Group{ID: groupZnode, Title: "Znodes:"},
		&cobra.Group{ID: groupFiles, Title: "Data directories:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupServe, newDev(), newServe(), newStatus(), newTop(), newDashboard(), newConfig(), newReconfig(), newMigrate(), newSessions(), newEphemerals(), newWatches(),
		newBench(), newSim(), newModel(), newLab(), newDocs())
	add(groupElect, newRun(), newLock(), newElect(), newLeader(), newObserve(), newElections(), newHistory(),
		newResign(), newTransfer(), newRestoreToken())
	add(groupZnode, newLs(), newGet(), newSet(), newCreate(), newRm(), newStat(), newWatch(), newSync(), newSh(),
		newACL(), newWhoami(), newQuota(), newWhoLocks())
	add(groupFiles, newCheck(), newLog(), newBackup(), newRestore(), newDiff())
	root.AddCommand(newVersion(), newMan())
	root.SetHelpCommand(newHelp())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasParent() {
			err = fmt.Errorf("%s: %w", commandName(c), err)
		}
		hint := c.CommandPath() + " --help shows the flags"
		if strings.Contains(err.Error(), "time: missing unit in duration") {
			hint = "a time needs its unit, as in 5s, 500ms or 2m; " + hint
		}
		return cli.Usage(hint, "%w", err)
	})
	return root
}

// usage marks cobra's errors about a wrong command line.
func usage(err error) error {
	var own *cli.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	for _, start := range []string{"required flag", "if any flags", "at least one of the flags"} {
		if strings.HasPrefix(err.Error(), start) {
			return cli.Usage("conclave --help shows the commands, conclave COMMAND --help what each expects", "%w", err)
		}
	}
	return err
}

// untilInterrupted returns a context that ends with the first SIGINT or SIGTERM; a second
// one ends the process.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	return untilSignal(parent, os.Interrupt, syscall.SIGTERM)
}

// untilHungUp returns a context that also ends with the terminal (SIGHUP). It is for
// commands that hold an election or a session, which they release at their end.
func untilHungUp(parent context.Context) (context.Context, context.CancelFunc) {
	return untilSignal(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
}

// untilSignal returns a context that ends with a signal, except those that this process was
// started to ignore: SIGHUP under nohup, SIGINT in the background of a script.
func untilSignal(parent context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	signals = slices.DeleteFunc(signals, signal.Ignored)
	ctx, stop := signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
