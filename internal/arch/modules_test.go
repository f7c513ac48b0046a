package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	used     = regexp.MustCompile(`(?m)^\t(\.(?:/[a-z0-9/-]+)?)$`)
	sibling  = regexp.MustCompile(`(?m)^\t?(?:require |replace )?(` + regexp.QuoteMeta(modulePath) + `\S*) (v\S+)`)
	replaces = regexp.MustCompile(`(?m)^replace`)
)

// TestModulesAreInStep: outside the tree a build downloads what go.mod requires, and the
// replace lines of a required module are ignored. If a module requires a sibling in a
// version other than the one that go.work replaces, the sibling is searched for on the
// network, even inside the tree.
func TestModulesAreInStep(t *testing.T) {
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	inTree := map[string]string{}
	for _, m := range sibling.FindAllSubmatch(work, -1) {
		inTree[string(m[1])] = string(m[2])
	}
	dirs := used.FindAllSubmatch(work, -1)
	if len(dirs) < 10 {
		t.Fatalf("go.work uses %d modules", len(dirs))
	}
	for _, dir := range dirs {
		name := filepath.Join(string(dir[1]), "go.mod")
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if replaces.Match(text) {
			t.Errorf("%s has a replace line: put it into go.work", name)
		}
		for _, m := range sibling.FindAllSubmatch(text, -1) {
			if path, version := string(m[1]), string(m[2]); inTree[path] != version {
				t.Errorf("%s requires %s %s; go.work replaces %q", name, path, version, inTree[path])
			}
		}
	}
}
