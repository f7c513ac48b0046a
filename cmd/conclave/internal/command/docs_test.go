package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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

// TestAllJSONIsInTheDocs checks for a row for each command that prints JSON, and for each key of an
// answer.
func TestAllJSONIsInTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(docs), "\n## JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if row := "`" + strings.TrimPrefix(c.CommandPath(), "conclave ") + "`"; c.Flag("json") != nil && !strings.Contains(section, row) {
			t.Errorf("no row of \"JSON\" has %s", row)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	described, err := os.ReadFile("../dashboard/site/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	api := map[string]bool{"dashlog.go": true, "dashsource.go": true, "dashvotes.go": true, "foreign.go": true}
	ours := map[string]bool{"devask.go": true, "devcontrol.go": true, "dev.go": true}
	for _, dir := range []string{".", "../cli", "../../../../internal/datadir"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") || ours[filepath.Base(file)] {
				continue
			}
			for _, key := range regexp.MustCompile("`json:\"([A-Za-z0-9]+)[,\"]").FindAllStringSubmatch(string(text), -1) {
				if api[filepath.Base(file)] {
					if !strings.Contains(string(described), `"`+key[1]+`": {`) {
						t.Errorf("%s: openapi.json does not have the key %q", file, key[1])
					}
					continue
				}
				if key[1] != "established" && !strings.Contains(section, "`"+key[1]+"`") { // that key is the admin port's
					t.Errorf("%s: the key %q is not in \"JSON\"", file, key[1])
				}
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
