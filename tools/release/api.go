package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// apidiff compares the exported API of two trees, by the rules of Go's compatibility
// promise.
const apidiff = "bin/apidiff" // make builds it

// promised are the packages of the root module whose API does not break within a version
// that promises it (docs/stability.md). In the other modules, all packages are promised.
var promised = []string{"client", "conclavetest", "election", "zk"}

// unpromised are packages below the promised ones that are not promised.
var unpromised = []string{"election/electiontest"}

// changes are changes of the promised API.
type changes struct{ breaking, compatible []string }

// apiSince returns how the API differs from an earlier version.
func (w *workspace) apiSince(earlier string) (changes, error) {
	var all changes
	tool, err := filepath.Abs(apidiff)
	if err != nil {
		return all, err
	}
	scratch, err := os.MkdirTemp("", "api-")
	if err != nil {
		return all, err
	}
	defer os.RemoveAll(scratch)
	old := filepath.Join(scratch, "tree")
	if _, err := output(".", "git", "worktree", "add", "--detach", old, earlier); err != nil {
		return all, err
	}
	defer func() { _, _ = output(".", "git", "worktree", "remove", "--force", old) }() // it is in a temporary directory
	export := filepath.Join(scratch, "export")
	for _, m := range w.modules {
		if _, err := os.Stat(filepath.Join(old, m.dir, "go.mod")); err != nil {
			all.compatible = append(all.compatible, "module "+m.path+": added")
			continue
		}
		if _, err := output(filepath.Join(old, m.dir), tool, "-m", "-w", export, m.path); err != nil {
			return all, err
		}
		report, err := output(m.dir, tool, "-m", export, m.path)
		if err != nil {
			return all, err
		}
		all.add(m, report)
	}
	return all, nil
}

// add adds the lines of a report that concern promised packages.
func (c *changes) add(m module, report string) {
	to := &c.breaking
	for line := range strings.Lines(report) {
		line = strings.TrimSpace(line)
		if line == "Compatible changes:" {
			to = &c.compatible
		}
		change, listed := strings.CutPrefix(line, "- ")
		if !listed {
			continue
		}
		change = strings.TrimPrefix(strings.TrimPrefix(change, "package "+m.path+"/"), "./")
		if m.dir != "." {
			change = m.dir + ": " + change
		} else if !isPromised(change) {
			continue
		}
		*to = append(*to, change)
	}
}

// isPromised reports whether a line such as "client/recipes.Lock: removed" concerns a
// promised package.
func isPromised(change string) bool {
	within := func(dir string) bool {
		return strings.HasPrefix(change, dir+".") || strings.HasPrefix(change, dir+"/") || strings.HasPrefix(change, dir+":")
	}
	for _, dir := range unpromised {
		if within(dir) {
			return false
		}
	}
	for _, dir := range promised {
		if within(dir) {
			return true
		}
	}
	return false
}

// markdown returns the changes as a section of CHANGELOG.md.
func (c changes) markdown() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		lines []string
	}{{"Breaking changes of the API", c.breaking}, {"Added to the API", c.compatible}} {
		if len(part.lines) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n", part.title)
		}
		for _, line := range part.lines {
			fmt.Fprintf(&b, "* `%s`\n", line)
		}
	}
	return b.String()
}

// printAPI prints how the API differs from the last version.
func (w *workspace) printAPI() error {
	last, err := lastVersion()
	if err != nil || last == "" {
		fmt.Println("no version is tagged: there is nothing to compare with")
		return err
	}
	c, err := w.apiSince(last)
	if err == nil {
		fmt.Printf("since %s: %d breaking, %d compatible\n%s", last, len(c.breaking), len(c.compatible), c.markdown())
	}
	return err
}
