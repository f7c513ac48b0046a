// Command systems checks whether packages and their tests compile for other systems than
// this one, as far as types show: it finds a missing build constraint, or a name that only
// Linux has.
//
//	go run ./tools/systems darwin/arm64,windows/amd64 ./client/... ./cmd/conclave/...
//
// It reads everything from source. go vet finds more, but first compiles all imports for
// each system, which takes six times as long, and the results are not needed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: systems GOOS/GOARCH,... PACKAGE...")
		os.Exit(2)
	}
	wrong := false
	for system := range strings.SplitSeq(os.Args[1], ",") {
		packages, err := check(system, os.Args[2:])
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", system, err)
			wrong = true
			continue
		}
		fmt.Printf("%s: %d packages\n", system, packages)
	}
	if wrong {
		os.Exit(1)
	}
}

// listed is a package in the output of go list.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // imports that stand for a package with a different path
	DepOnly    bool              // it is only imported by the packages that were asked for
	ForTest    string
	Module     *struct{ GoVersion string }
}

// check returns how many packages were asked for, and everything that is wrong with them.
func check(system string, patterns []string) (asked int, err error) {
	goos, goarch, ok := strings.Cut(system, "/")
	sizes := types.SizesFor("gc", goarch)
	if !ok || sizes == nil {
		return 0, errors.New("want GOOS/GOARCH")
	}
	all, err := list(goos, goarch, patterns)
	if err != nil {
		return 0, err
	}
	c := &checker{files: token.NewFileSet(), sizes: sizes, types: map[string]*types.Package{"unsafe": types.Unsafe}}
	c.parse(all)
	for _, p := range all { // imports come before the packages that import them
		if c.check(p); !p.DepOnly {
			asked++
		}
	}
	return asked, errors.Join(c.wrong...)
}

// list returns the packages, their tests and everything that they import, imports first.
func list(goos, goarch string, patterns []string) ([]*listed, error) {
	command := exec.Command("go", append([]string{"list", "-deps", "-test", "-pgo=off",
		"-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly,ForTest,Module"}, patterns...)...)
	command.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []*listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") { // the main package of a test is generated
			all = append(all, &p)
		}
	}
}

// checker holds what was read and what was found. The types of a package are used by one
// goroutine at a time.
type checker struct {
	files  *token.FileSet
	sizes  types.Sizes
	parsed map[*listed][]*ast.File
	types  map[string]*types.Package // by ImportPath
	wrong  []error
}

// parse reads all packages, on all cores.
func (c *checker) parse(all []*listed) {
	c.parsed = make(map[*listed][]*ast.File, len(all))
	var lock sync.Mutex
	var wait sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range all {
		free <- struct{}{}
		wait.Go(func() {
			files, err := c.parseOne(p)
			lock.Lock()
			c.parsed[p] = files
			if err != nil {
				c.wrong = append(c.wrong, err)
			}
			lock.Unlock()
			<-free
		})
	}
	wait.Wait()
}

func (c *checker) parseOne(p *listed) (files []*ast.File, err error) {
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		file, e := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		err = errors.Join(err, e)
		files = append(files, file)
	}
	return files, err
}

// check checks the types of a package; of an imported package, only what others can see.
func (c *checker) check(p *listed) {
	config := types.Config{
		Sizes:            c.sizes,
		IgnoreFuncBodies: p.DepOnly,
		Importer:         &importer{c, p},
		Error:            c.found,
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // without the name of the test that it is compiled for
	c.types[p.ImportPath], _ = config.Check(path, c.files, c.parsed[p], nil)
	delete(c.parsed, p)
}

// found records a problem, once: a package is read again for its tests.
func (c *checker) found(err error) {
	if !slices.ContainsFunc(c.wrong, func(other error) bool { return other.Error() == err.Error() }) {
		c.wrong = append(c.wrong, err)
	}
}

// importer finds what a package imports.
type importer struct {
	c *checker
	p *listed
}

// Import implements types.Importer.
func (i *importer) Import(path string) (*types.Package, error) {
	if other, ok := i.p.ImportMap[path]; ok {
		path = other
	}
	if found := i.c.types[path]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("%s has not been read", path)
}
