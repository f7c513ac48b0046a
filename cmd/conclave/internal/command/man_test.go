package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		".nf\n.RS\nfile:///var/lib/conclave/elections\n", // a list stays a list
		"\n.TP\n\\fB\\-\\-forever\\fR\n",
		".SH SEE ALSO\nconclave(1)\n",
	} {
		if err != nil || !strings.Contains(string(run), want) {
			t.Errorf("conclave-run.1 lacks %q (%v)", want, err)
		}
	}
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
