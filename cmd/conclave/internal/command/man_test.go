package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAManPage(t *testing.T) {
	dir := t.TempDir()
	if err := writeManPages(dir, newRoot()); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(newRoot().Commands(), newRoot()) {
		text, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			if c.IsAvailableCommand() {
				t.Error(err)
			}
			continue
		}
		if head := ".TH " + strings.ToUpper(manName(c)) + " 1 "; !strings.HasPrefix(string(text), head) {
			t.Errorf("%s does not begin with %q", manName(c), head)
		}
	}
	run, err := os.ReadFile(filepath.Join(dir, "conclave-run.1"))
	for _, want := range []string{
		".SH NAME\nconclave\\-run \\- Run a command while this process leads\n",
		"conclave run\\fR NAME [OPTION...] \\-\\- COMMAND",
		".TP\n\\fBfile:///var/lib/conclave/elections\\fR\na directory of a local disk",
		".SH EXIT STATUS\nthat of the command, or 128",
		".SH ENVIRONMENT\n.TP\n\\fBCONCLAVE_STORE\\fR\n",
		"\n.TP\n\\fB\\-\\-forever\\fR\n",
		".SH SEE ALSO\nconclave(1)\n",
	} {
		if err != nil || !strings.Contains(string(run), want) {
			t.Errorf("conclave-run.1 lacks %q (%v)", want, err)
		}
	}
}

func TestEveryCommandHasAnExampleOfItself(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.HasParent() && c.Name() != "help" && !strings.Contains(c.Example, "  "+c.CommandPath()) {
			t.Errorf("%s has no example of its own: %q", c.CommandPath(), c.Example)
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len(line) > 121 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), len(line)-1, line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestManPagesEscapeWhatManWouldTakeForItsOwn(t *testing.T) {
	for text, want := range map[string]string{
		`a\n`:      `a\en`,
		".PP":      `\&.PP`,
		"'quoted'": `\&'quoted'`,
		"--flag":   `\-\-flag`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
