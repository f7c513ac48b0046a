package arch

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageIsOnTheMap(t *testing.T) {
	for _, s := range sources(t) {
		if _, known := layout[s.dir]; s.onMap() && !known {
			t.Errorf("%s: not in the table of packages: give it a layer and a kind", s.dir)
		}
	}
}

// The packages outside the map have a sentence of their own: those of the command by their names,
// modules and tests by their directories.
func TestPackagesOutsideTheMapAreNamed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for pattern, from := range map[string]string{"cmd/conclave/internal/*": "cmd/conclave", "test/*": "", "client/*/go.mod": "",
		"election/*/go.mod": "", "election/fence/*/go.mod": ""} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d, %v", pattern, len(found), err)
		}
		for _, dir := range found {
			name, err := filepath.Rel(filepath.Join(root, from), strings.TrimSuffix(filepath.ToSlash(dir), "/go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "`"+filepath.ToSlash(name)+"`") {
				t.Errorf("ARCHITECTURE.md does not say what %s is", name)
			}
		}
	}
}

func TestPackagesImportOnlyLowerLayersAndNoHigherKind(t *testing.T) {
	for _, s := range sources(t) {
		if !s.onMap() {
			continue
		}
		from := layout[s.dir]
		for path, at := range s.imports() {
			target, our := ours(path)
			to, known := layout[target]
			_, reasoned := excused[s.dir][path]
			switch {
			case !our:
			case !known:
				t.Errorf("%v: %s imports %s, which is no package of the map", at, s.dir, target)
			case to.layer >= from.layer:
				t.Errorf("%v: %s on layer %d imports %s on layer %d", at, s.dir, from.layer, target, to.layer)
			case rank[to.kind] > rank[from.kind] && !reasoned:
				t.Errorf("%v: %s of kind %c imports %s of kind %c", at, s.dir, from.kind, target, to.kind)
			}
		}
	}
}

func TestMachinesAndStorageTakeNothingFromTheAir(t *testing.T) {
	for _, s := range sources(t) {
		if !s.onMap() {
			continue
		}
		for path, at := range s.imports() {
			_, reasoned := excused[s.dir][path]
			if isForbidden(layout[s.dir].kind, path) && !reasoned {
				t.Errorf("%v: %s of kind %c imports %s", at, s.dir, layout[s.dir].kind, path)
			}
		}
		for path := range excused[s.dir] {
			if _, used := s.imports()[path]; !used {
				t.Errorf("%s: excused for %s, which it does not import", s.dir, path)
			}
		}
	}
}

func isForbidden(k kind, path string) bool {
	return slices.ContainsFunc(forbidden[k], func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/")
	})
}

func TestGoroutinesStartInShellsOnly(t *testing.T) {
	for _, s := range sources(t) {
		if !s.onMap() || layout[s.dir].kind == shell {
			continue
		}
		for _, f := range s.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%v: a goroutine in a package of kind %c", s.set.Position(g.Pos()), layout[s.dir].kind)
				}
				return true
			})
		}
	}
}

func TestNothingRegistersItself(t *testing.T) {
	for _, s := range sources(t) {
		for _, f := range s.files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%v: an init function: let cmd/conclave wire it", s.set.Position(fn.Pos()))
				}
			}
		}
	}
}

// commentBytesMin is shorter than any sentence that says what a package is.
const commentBytesMin = 60

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, s := range sources(t) {
		longest := 0
		for _, f := range s.files {
			longest = max(longest, len(f.Doc.Text()))
		}
		if longest < commentBytesMin {
			t.Errorf("%s: no package comment that says what it is", s.dir)
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if !s.onMap() {
			continue
		}
		for _, f := range s.files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && fn.Recv == nil && fn.Name.IsExported() && fn.Doc == nil {
					t.Errorf("%v: %s has no comment", s.set.Position(fn.Pos()), fn.Name.Name)
				}
			}
		}
	}
}

// TestModulesThatManyBuildRequireLittle: a build downloads only what go.mod lists, indirect
// requirements included.
func TestModulesThatManyBuildRequireLittle(t *testing.T) {
	for dir, reasons := range required {
		text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		left := maps.Clone(reasons)
		for _, m := range regexp.MustCompile(`(?m)^(?:require |\t)([a-z0-9.-]+\.[a-z]+/\S+) v`).FindAllSubmatch(text, -1) {
			if reasons[string(m[1])] == "" {
				t.Errorf("%s/go.mod requires %s: give the reason in layout_test.go and docs/decisions", dir, m[1])
			}
			delete(left, string(m[1]))
		}
		for module := range left {
			t.Errorf("%s/go.mod does not require %s: take it out of the list", dir, module)
		}
	}
}

var sourceName = regexp.MustCompile("`((?:[A-Za-z0-9_.-]+/)+[A-Za-z0-9_.-]+\\.(?:go|md|txt|mod|xml|py|c|java))`")

func TestFilesNamedInTheDocumentsExist(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		documents = append(documents, filepath.Join(root, name))
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sourceName.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(string(m[1])))); err != nil {
				t.Errorf("%s names %s: %v", filepath.Base(document), m[1], err)
			}
		}
	}
}

// besideFile matches a file with functions in it that a document points to: `dir/file.go`
// (`one`, `two`).
var besideFile = regexp.MustCompile("`((?:[A-Za-z0-9_.-]+/)+[A-Za-z0-9_.-]+\\.go)`\\s\\(([^)]+)\\)")

func TestFunctionsNamedBesideAFileAreInIt(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	identifier := regexp.MustCompile("`([A-Za-z]\\w*)`")
	count := 0
	for _, m := range besideFile.FindAllSubmatch(text, -1) {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(string(m[1]))))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range identifier.FindAllSubmatch(m[2], -1) {
			count++
			if !regexp.MustCompile(`(?m)^func (\([^)]+\) )?` + string(name[1]) + `\(`).Match(source) {
				t.Errorf("ARCHITECTURE.md: %s has no function %s", m[1], name[1])
			}
		}
	}
	if count < 50 {
		t.Errorf("only %d functions are named", count)
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksInTheDocumentsLead(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", document, m[1], err)
			}
		}
	}
}

func TestTheMapInTheDocumentIsThatOfTheTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| ([0-9])([MSH]) \\|")
	drawn := map[string]place{}
	for _, m := range row.FindAllSubmatch(text, -1) {
		drawn[string(m[1])] = place{int(m[2][0] - '0'), kind(m[3][0])}
	}
	for name, r := range layout {
		if drawn[name] != r {
			t.Errorf("ARCHITECTURE.md: %s is on layer %d%c of the map in layout_test.go", name, r.layer, r.kind)
		}
	}
	for name := range drawn {
		if _, known := layout[name]; !known {
			t.Errorf("ARCHITECTURE.md has a package %s that is not in layout_test.go", name)
		}
	}
}
