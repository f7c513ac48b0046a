//go:build release

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a small tree of two modules; the second requires the first.
var tree = map[string]string{
	".gitignore":       "/bin\n",
	"go.work":          "go 1.26.0\n\nuse (\n\t.\n\t./nested\n)\n\nreplace example.com/m v0.0.0 => ./\n",
	"go.mod":           "module example.com/m\n\ngo 1.26.0\n",
	"zk/zk.go":         "// Package zk is an example.\npackage zk\n\nfunc F() {}\n\nfunc G() {}\n",
	"algo/algo.go":     "// Package algo is not promised.\npackage algo\n\nfunc F() {}\n",
	"nested/go.mod":    "module example.com/m/nested\n\ngo 1.26.0\n\nrequire example.com/m v0.0.0\n",
	"nested/nested.go": "// Package nested is an example.\npackage nested\n\nimport \"example.com/m/zk\"\n\nfunc F() { zk.G() }\n",
	versionFile:        "package command\n\nconst version = \"0.0.0\"\n",
	changelog:          "# Changes\n\n" + unreleased + "\n* all\n",
}

// TestVersionsAreInStepAndBreakNothingUnsaid makes three versions of the small tree. The
// second one breaks the API: it is refused as a patch version, and the break is reported in
// the minor version.
func TestVersionsAreInStepAndBreakNothingUnsaid(t *testing.T) {
	tool, err := filepath.Abs(filepath.Join("../..", apidiff))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, variable := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(variable, "proof@example.com")
	}
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=readonly")
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tool, apidiff); err != nil {
		t.Fatal(err)
	}
	git(t, "init", "--quiet")
	edit(t, tree)
	prepared(t, "v0.1.0")

	edit(t, map[string]string{
		"zk/zk.go":     "// Package zk is an example.\npackage zk\n\nfunc G() {}\n",
		"algo/algo.go": "// Package algo is not promised.\npackage algo\n",
	})
	if err := prepare("v0.2.0"); err == nil || !strings.Contains(err.Error(), "nothing is noted") {
		t.Errorf("a version of which nothing is noted: %v", err)
	}
	note(t, "* F has gone")
	if err := prepare("v0.1.1"); err == nil || !strings.Contains(err.Error(), "zk.F: removed") || strings.Contains(err.Error(), "algo") {
		t.Errorf("a patch that removes zk.F: %v", err)
	}
	prepared(t, "v0.2.0")
	if text := read(t, changelog); !strings.Contains(text, "* F has gone\n\n### Breaking changes of the API\n\n* `zk.F: removed`\n\n## v0.1.0") {
		t.Errorf("%s:\n%s", changelog, text)
	}
	note(t, "* nothing")
	if err := prepare("v0.1.2"); err == nil || !strings.Contains(err.Error(), "is not higher") {
		t.Errorf("a lower version: %v", err)
	}
	prepared(t, "v0.2.1")
	for name, part := range map[string]string{
		"nested/go.mod": "require example.com/m v0.2.1\n", "go.work": "replace example.com/m v0.2.1 => ./\n", versionFile: `"0.2.1"`,
	} {
		if text := read(t, name); !strings.Contains(text, part) {
			t.Errorf("%s has no %q:\n%s", name, part, text)
		}
	}
	if tags := git(t, "tag", "--points-at", "HEAD"); tags != "nested/v0.2.1\nv0.2.1" {
		t.Errorf("tags: %s", tags)
	}
}

func prepare(version string) error {
	w, err := readWorkspace()
	if err != nil {
		return err
	}
	return w.prepare(version)
}

func prepared(t *testing.T, version string) {
	t.Helper()
	if err := prepare(version); err != nil {
		t.Fatal(err)
	}
}

// note adds a line to the changelog, as the author of a change does.
func note(t *testing.T, line string) {
	t.Helper()
	edit(t, map[string]string{changelog: strings.Replace(read(t, changelog), unreleased, unreleased+"\n"+line+"\n", 1)})
}

// edit commits files.
func edit(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, "add", "--all")
	git(t, "commit", "--quiet", "--message", "edit")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(".", "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
