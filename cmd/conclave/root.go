package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// Groups of subcommands in the help.
const (
	groupServe = "serve"
	groupElect = "elect"
	groupZnode = "znode"
	groupFiles = "files"
)

const rootLong = `Conclave elects leaders, and serves ZooKeeper's clients.

  conclave dev                                   three servers to try things on
  conclave run NAME -- COMMAND...                run a command on one machine at a time
  conclave ls / --server HOST:2181               look into any ZooKeeper

Answers go to the standard output, everything else to the standard error.
Exit codes: 0 done, 1 failed, 2 wrong command line or configuration, 3 no
server, 4 not found, 5 damage found. docs/commands.md has them all.`

// execute runs one command line and returns the exit code.
func execute(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			said := make(chan struct{})
			go func() {
				defer close(said)
				cli.Report(os.Stderr, exit.err)
			}()
			lastWords(said)
		}
		return exit.code
	}
	return cli.Report(os.Stderr, usage(err))
}

// exitError carries the exit code of a command that was run.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return "exit code of the command" }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "conclave",
		Short:         "Elects leaders, and serves ZooKeeper's clients",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
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
	add(groupServe, newDev(), newServe(), newStatus(), newBench(), newSim(), newModel())
	add(groupElect, newRun(), newLock(), newElect(), newLeader(), newObserve(), newElections(), newHistory(),
		newResign(), newTransfer(), newRestoreToken())
	add(groupZnode, newLs(), newGet(), newSet(), newCreate(), newRm(), newStat(), newWatch())
	add(groupFiles, newCheck(), newLog())
	root.AddCommand(newVersion(), newMan())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return cli.Usage(c.CommandPath()+" --help shows the flags", "%s: %w", c.Name(), err)
	})
	return root
}

// usage marks what cobra says of a wrong command line.
func usage(err error) error {
	var own *cli.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	for _, start := range []string{"unknown command", "accepts ", "requires at least", "required flag", "requires at most", "if any flags"} {
		if strings.HasPrefix(err.Error(), start) {
			return cli.Usage("conclave --help shows the commands, conclave COMMAND --help what each expects", "%w", err)
		}
	}
	return err
}

// untilInterrupted is a context that ends with the first SIGINT or SIGTERM; the
// second one ends the process.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
