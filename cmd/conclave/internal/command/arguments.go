package command

import (
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// takes returns the check of a command's arguments: one for each name, and as many
// more as optional says, -1 for any number.
func takes(optional int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		hint := c.CommandPath() + " --help shows what it takes"
		if len(args) < len(names) {
			return cli.Usage(hint, "%s: %s is missing", c.Name(), strings.Join(names[len(args):], " and "))
		}
		if most := len(names) + optional; optional >= 0 && len(args) > most {
			return cli.Usage(hint, "%s: %q is one argument too many", c.Name(), args[most])
		}
		return nil
	}
}

// unknownCommand is the check of the root's arguments: none of them is a command.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "conclave --help shows the commands"
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean conclave " + strings.Join(near, ", or conclave ") + "?"
	}
	return cli.Usage(hint, "there is no command %q", args[0])
}

// newHelp is cobra's help command, which refuses what it knows nothing of.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does and takes",
		ValidArgsFunction: func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			return commandsUnder(c.Root(), args, start), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(c.Root(), args)
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
