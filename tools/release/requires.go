package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// setVersion makes the modules require each other in a version. go.work replaces exactly
// this version by what is in the tree, because the go command looks up even modules of the
// workspace.
func (w *workspace) setVersion(version string) error {
	inTree := map[module]bool{}
	for _, m := range w.modules {
		siblings, err := w.siblings(m)
		if err != nil {
			return err
		}
		for _, s := range siblings {
			inTree[s] = true
			if _, err := output(m.dir, "go", "mod", "edit", "-require="+s.path+"@"+version); err != nil {
				return err
			}
		}
	}
	if err := w.replaceInTree(version, inTree); err != nil {
		return err
	}
	if err := setConstant(version); err != nil {
		return err
	}
	_, err := output(".", "go", "list", "-deps", "work") // checks that everything is found
	return err
}

func (w *workspace) replaceInTree(version string, inTree map[module]bool) error {
	var work struct {
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	if err := goJSON(&work, ".", "work", "edit", "-json"); err != nil {
		return err
	}
	edit := []string{"work", "edit"}
	for _, m := range w.modules { // first, so each line stays where the old one was
		if inTree[m] {
			edit = append(edit, "-replace="+m.path+"@"+version+"=./"+strings.TrimPrefix(m.dir, "."))
		}
	}
	for _, r := range work.Replace {
		edit = append(edit, "-dropreplace="+r.Old.Path+"@"+r.Old.Version)
	}
	_, err := output(".", "go", edit...)
	return err
}

// versionFile contains the version that the programs report.
const versionFile = "cmd/conclave/internal/command/version.go"

var constant = regexp.MustCompile(`(?m)^const version = ".*"$`)

func setConstant(version string) error {
	text, err := os.ReadFile(versionFile)
	if err != nil {
		return err
	}
	if !constant.Match(text) {
		return fmt.Errorf("%s has no line that sets the constant version", versionFile)
	}
	return os.WriteFile(versionFile, constant.ReplaceAll(text, fmt.Appendf(nil, "const version = %q", version[1:])), 0o644)
}

// tidy runs go mod tidy in every module. That command does not know workspaces, so it works
// on copies of go.mod and go.sum that say where the other modules are.
func (w *workspace) tidy() error {
	for _, m := range w.modules {
		if err := w.tidyOne(m); err != nil {
			return err
		}
	}
	return nil
}

func (w *workspace) tidyOne(m module) error {
	scratch, err := os.MkdirTemp("", "tidy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	mod, sum := filepath.Join(scratch, "go.mod"), filepath.Join(scratch, "go.sum")
	own := func(name string) string { return filepath.Join(m.dir, name) }
	if err := copyFile(own("go.mod"), mod); err != nil {
		return err
	}
	if err := copyFile(own("go.sum"), sum); err != nil && !os.IsNotExist(err) {
		return err
	}
	add, drop := []string{"mod", "edit"}, []string{"mod", "edit"}
	for _, other := range w.modules {
		if other == m {
			continue
		}
		at, err := filepath.Abs(other.dir)
		if err != nil {
			return err
		}
		add, drop = append(add, "-replace="+other.path+"="+at), append(drop, "-dropreplace="+other.path)
	}
	if _, err := output(m.dir, "go", append(add, mod)...); err != nil {
		return err
	}
	if _, err := output(m.dir, "go", "mod", "tidy", "-modfile="+mod); err != nil {
		return err
	}
	if _, err := output(m.dir, "go", append(drop, mod)...); err != nil {
		return err
	}
	if err := copyFile(mod, own("go.mod")); err != nil {
		return err
	}
	if err := copyFile(sum, own("go.sum")); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// copyFile copies a file.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
