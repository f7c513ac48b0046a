package command

import (
	"os"
	"strings"
	"testing"
)

func TestEveryCommandIsInTheDocsAndHasAnExplanation(t *testing.T) {
	docs, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newRoot().Commands() {
		if c.Short == "" || c.Hidden {
			t.Errorf("%s: no explanation", c.Name())
		}
		if c.Name() != "help" && !strings.Contains(string(docs), "`conclave "+c.Name()) {
			t.Errorf("docs/commands.md does not name %s", c.Name())
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && c.Name() != "completion" && !strings.Contains(string(docs), "`conclave "+c.Name()+" "+sub.Name()) {
				t.Errorf("docs/commands.md does not name %s %s", c.Name(), sub.Name())
			}
		}
	}
}

func TestEveryStoreIsInTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range backends {
		if row := "| `" + k.example + "` | "; !strings.Contains(string(docs), row) {
			t.Errorf("docs/commands.md has no row that begins with %s", row)
		}
		if !strings.HasPrefix(k.example, k.scheme+"://") || k.about == "" {
			t.Errorf("%s: example %q, about %q", k.scheme, k.example, k.about)
		}
	}
}
