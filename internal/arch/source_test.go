package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	root       = "../.."
	modulePath = "github.com/conclave-project/conclave"
)

// source is one package: the files of one directory for every operating system, without
// tests.
type source struct {
	dir    string // below the root, with slashes
	module string // directory of its module, "." for the root
	files  []*ast.File
	set    *token.FileSet
}

// sources parses the whole tree.
func sources(t *testing.T) []*source {
	t.Helper()
	var found []*source
	var module []string // stack of directories with a go.mod
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tmp" || name == "target" || name == "node_modules") {
			return fs.SkipDir
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
			module = append(module, filepath.ToSlash(dir))
		}
		s, err := parse(path)
		if err != nil || len(s.files) == 0 {
			return err
		}
		s.dir, s.module = filepath.ToSlash(dir), "."
		for _, m := range module {
			if s.dir == m || strings.HasPrefix(s.dir, m+"/") {
				s.module = m
			}
		}
		found = append(found, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// parse parses the files of one directory.
func parse(dir string) (*source, error) {
	s := &source{set: token.NewFileSet()}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
	}
	return s, nil
}

// imports returns the paths that a package imports, each with one position.
func (s *source) imports() map[string]token.Position {
	all := map[string]token.Position{}
	for _, f := range s.files {
		for _, spec := range f.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil {
				all[path] = s.set.Position(spec.Pos())
			}
		}
	}
	return all
}

// ours returns the directory of an imported package of the root module.
func ours(path string) (string, bool) {
	if path == modulePath {
		return ".", true
	}
	return strings.CutPrefix(path, modulePath+"/")
}

// onMap reports whether a package belongs in the table of packages: it is in the root
// module and is neither a black-box test nor a tool.
func (s *source) onMap() bool {
	return s.module == "." && s.dir != "." && s.dir != "test" && !strings.HasPrefix(s.dir, "test/") &&
		!strings.HasPrefix(s.dir, "examples/") && !strings.HasPrefix(s.dir, "tools/")
}
