package command

import (
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// takes returns a check of a command's arguments: one for each name, and up to optional
// more (-1 for any number).
func takes(optional int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		hint := c.CommandPath() + " --help shows what it takes"
		name := commandName(c)
		if len(args) < len(names) {
			return cli.Usage(hint, "%s: %s is missing", name, strings.Join(names[len(args):], " and "))
		}
		if most := len(names) + optional; optional >= 0 && len(args) > most {
			if most == 0 && c.HasAvailableSubCommands() {
				return unknownCommand(c, args)
			}
			return cli.Usage(hint, "%s: %q is one argument too many", name, args[most])
		}
		return nil
	}
}

// commandName returns a command as it is typed after conclave.
func commandName(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "conclave ") }

// unknownCommand checks the arguments of the root or of a group: none of them may be there,
// because none is a command.
func unknownCommand(group *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	path := group.CommandPath() + " "
	hint := path + "--help shows the commands"
	group.SuggestionsMinimumDistance = 2
	if near := group.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + path + strings.Join(near, ", or "+path) + "?"
	}
	return cli.Usage(hint, "there is no command %q", strings.TrimPrefix(path+args[0], "conclave "))
}

// refuseShells makes the completion command refuse an unknown shell, where cobra would show
// its help.
func refuseShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	c.Args, c.RunE = takes(0), func(c *cobra.Command, _ []string) error { return c.Help() }
}

// newHelp returns cobra's help command, but it refuses unknown commands.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does and takes",
		ValidArgsFunction: func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			return commandsUnder(c.Root(), args, start), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil {
				return unknownCommand(c.Root(), args)
			}
			if len(rest) > 0 {
				return unknownCommand(found, rest)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// commandsUnder returns the commands below the one that the arguments name.
func commandsUnder(root *cobra.Command, args []string, start string) []string {
	under, _, err := root.Find(args)
	if err != nil {
		return nil
	}
	var all []string
	for _, c := range under.Commands() {
		if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), start) {
			all = append(all, c.Name()+"\t"+c.Short)
		}
	}
	return all
}
