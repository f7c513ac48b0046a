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
				return cli.Failed(fmt.Errorf("write man pages: %w", err), "name a writable directory")
			}
			return nil
		},
	}
}

// writeManPages writes the pages of a command and of its subcommands.
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
	p.line("\\fB%s\\fR%s", roff(c.CommandPath()), roff(manUse(c)))
	p.section("DESCRIPTION")
	about, codes, _ := strings.Cut(c.Long, exitCodes)
	if about == "" {
		about = c.Short + "."
	}
	p.text(about)
	p.commands(c)
	p.flags("OPTIONS", c.LocalFlags())
	p.section("EXIT STATUS")
	if codes == "" {
		codes = manCodes
	}
	p.text(strings.ReplaceAll(strings.TrimSpace(codes), "; ", ";\n"))
	p.environment(c)
	if c.HasExample() {
		p.section("EXAMPLES")
		p.text(c.Example)
	}
	p.section("SEE ALSO")
	p.line("%s", roff(strings.Join(manOthers(c), ", ")))
	return p.String()
}

const (
	// exitCodes is the beginning of the paragraph about exit codes in the long texts.
	exitCodes = "Exit codes:"
	manCodes  = "0 done; 1 failed, or refused by the server; 2 wrong command line or configuration; " +
		"3 no server or store was reached, or the connection was lost; 4 not found; 5 damage found."
)

// manUse returns what follows the name of a command in its synopsis.
func manUse(c *cobra.Command) string {
	use := strings.TrimPrefix(c.UseLine(), c.CommandPath())
	if c.HasAvailableSubCommands() && !strings.Contains(use, "COMMAND") {
		use += " [COMMAND]"
	}
	return strings.ReplaceAll(use, "[flags]", "[OPTION...]")
}

// environment lists the environment variables for flags of a command.
func (p *manWriter) environment(c *cobra.Command) {
	p.section("ENVIRONMENT")
	for _, one := range []struct{ flag, name, about string }{
		{"server", cli.StoreVariable, "the servers, unless --server names them"},
		{"store", cli.StoreVariable, "the store of elections, unless --store names it"},
		{"tls-ca", "CONCLAVE_TLS_CA, CONCLAVE_TLS_CERT, CONCLAVE_TLS_KEY", "the files of --tls-ca, --tls-cert and --tls-key"},
		{"tls-ca", "CONCLAVE_TLS_PASSWORD", "opens those files"},
		{"jaas", "CONCLAVE_JAAS", "the file of --jaas"},
		{"auth-file", "CONCLAVE_AUTH_FILE", "the file of --auth-file"},
		{"admin-token-file", "CONCLAVE_ADMIN_TOKEN_FILE", "the file of --admin-token-file"},
		{"color", "NO_COLOR", "no colors, unless --color always asks for them"},
	} {
		if c.Flag(one.flag) != nil {
			p.defined(one.name, one.about)
		}
	}
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

// text writes paragraphs. Lines that begin with spaces are kept as they are, except in a
// list of terms, whose descriptions are indented further.
func (p *manWriter) text(text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for first := true; len(lines) > 0; {
		n := 1
		for n < len(lines) && manKind(lines[n]) == manKind(lines[0]) {
			n++
		}
		block := lines[:n]
		lines = lines[n:]
		if block[0] == "" {
			continue
		}
		if !first {
			p.line(".PP")
		}
		first = false
		p.block(block)
	}
}

// manKind distinguishes empty lines, indented lines and lines of a paragraph.
func manKind(line string) int {
	switch {
	case line == "":
		return 0
	case strings.HasPrefix(line, "  "):
		return 1
	}
	return 2
}

func (p *manWriter) block(lines []string) {
	switch {
	case manKind(lines[0]) == 2:
		for _, line := range lines {
			p.line("%s", roff(line))
		}
		return
	case isDeeper(lines[len(lines)-1]) && !isDeeper(lines[0]):
		for _, line := range lines {
			if isDeeper(line) {
				p.line("%s", roff(strings.TrimSpace(line)))
			} else {
				p.term(strings.TrimSpace(line))
			}
		}
		return
	}
	p.line(".nf\n.RS")
	for _, line := range lines {
		p.line("%s", roff(strings.TrimPrefix(line, "  ")))
	}
	p.line(".RE\n.fi")
}

func isDeeper(line string) bool { return strings.HasPrefix(line, "      ") }

// term begins an entry of a list; its description follows.
func (p *manWriter) term(name string) { p.line(".TP\n\\fB%s\\fR", roff(name)) }

func (p *manWriter) defined(name, about string) {
	p.term(name)
	p.line("%s", roff(about))
}

func (p *manWriter) commands(c *cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			p.defined(sub.Name(), sub.Short)
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

// roff escapes what has a special meaning in man(7).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
