package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write man pages of all commands into a directory",
		Example: `  conclave man ~/.local/share/man/man1 && man conclave-run`,
		Args:    takes(0, "DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			err := os.MkdirAll(args[0], 0o755)
			if err == nil {
				err = writeManPages(args[0], c.Root())
			}
			if err != nil {
				return cli.Failed(fmt.Errorf("write man pages: %w", err), "name a directory that can be written")
			}
			return nil
		},
	}
}

// writeManPages writes the page of a command, and of those below it.
func writeManPages(dir string, c *cobra.Command) error {
	if !c.IsAvailableCommand() {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(manPage(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := writeManPages(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is the page of a command in the language of man(7).
func manPage(c *cobra.Command) string {
	p := &manWriter{}
	p.line(".TH %s 1 \"\" \"conclave %s\" Conclave", strings.ToUpper(manName(c)), version)
	p.section("NAME")
	p.line("%s \\- %s", roff(manName(c)), roff(c.Short))
	p.section("SYNOPSIS")
	p.line("\\fB%s\\fR%s", roff(c.CommandPath()), roff(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	p.section("DESCRIPTION")
	if c.Long == "" {
		p.text(c.Short + ".")
	}
	p.text(c.Long)
	p.commands(c)
	p.flags("OPTIONS", c.LocalFlags())
	if c.HasExample() {
		p.section("EXAMPLES")
		p.text(c.Example)
	}
	p.section("SEE ALSO")
	p.line("%s", roff(strings.Join(manOthers(c), ", ")))
	return p.String()
}

// manOthers are the pages above a command and below it.
func manOthers(c *cobra.Command) []string {
	var others []string
	if c.HasParent() {
		others = append(others, manName(c.Parent())+"(1)")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			others = append(others, manName(sub)+"(1)")
		}
	}
	return others
}

type manWriter struct{ strings.Builder }

func (p *manWriter) line(format string, a ...any) { fmt.Fprintf(p, format+"\n", a...) }

func (p *manWriter) section(name string) { p.line(".SH %s", name) }

// text writes paragraphs. Lines that begin with spaces stay as they are.
func (p *manWriter) text(text string) {
	asIs := false
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !asIs:
			p.line(".PP\n.nf\n.RS")
		case asIs && !indented:
			p.line(".RE\n.fi\n.PP")
		case line == "":
			p.line(".PP")
		}
		asIs = indented
		if line != "" {
			p.line("%s", roff(strings.TrimPrefix(line, "  ")))
		}
	}
	if asIs {
		p.line(".RE\n.fi")
	}
}

func (p *manWriter) commands(c *cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			p.line(".TP\n\\fB%s\\fR\n%s", roff(sub.Name()), roff(sub.Short))
		}
	}
}

func (p *manWriter) flags(name string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(name)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		head := "\\fB\\-\\-" + roff(f.Name) + "\\fR"
		if f.Shorthand != "" {
			head = "\\fB\\-" + roff(f.Shorthand) + "\\fR, " + head
		}
		if value != "" {
			head += " \\fI" + roff(value) + "\\fR"
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]", "-1":
		default:
			about += " (default " + f.DefValue + ")"
		}
		p.line(".TP\n%s\n%s", head, roff(about))
	})
}

// roff escapes what man(7) would take for its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
