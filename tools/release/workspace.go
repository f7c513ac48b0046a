package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is one of the modules that are released together.
type module struct {
	path string
	dir  string // relative to the top of the tree, with slashes; "." for the root module
}

// tag returns the Git tag by which the go command finds a version of the module.
func (m module) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// workspace lists the modules of go.work, the root module first.
type workspace struct{ modules []module }

func readWorkspace() (*workspace, error) {
	var work struct {
		Use []struct{ DiskPath string }
	}
	if err := goJSON(&work, ".", "work", "edit", "-json"); err != nil {
		return nil, err
	}
	w := &workspace{}
	for _, use := range work.Use {
		dir := filepath.ToSlash(filepath.Clean(use.DiskPath))
		var mod struct{ Module struct{ Path string } }
		if err := goJSON(&mod, dir, "mod", "edit", "-json"); err != nil {
			return nil, err
		}
		w.modules = append(w.modules, module{mod.Module.Path, dir})
	}
	if len(w.modules) == 0 || w.modules[0].dir != "." {
		return nil, fmt.Errorf("go.work does not begin with the root module: run this in the top folder of the tree")
	}
	return w, nil
}

// siblings returns the modules of the workspace that a module requires.
func (w *workspace) siblings(m module) ([]module, error) {
	var mod struct {
		Require []struct{ Path string }
	}
	if err := goJSON(&mod, m.dir, "mod", "edit", "-json"); err != nil {
		return nil, err
	}
	var found []module
	for _, r := range mod.Require {
		for _, other := range w.modules {
			if r.Path == other.path {
				found = append(found, other)
			}
		}
	}
	return found, nil
}

func goJSON(to any, dir string, args ...string) error {
	out, err := output(dir, "go", args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), to)
}

// output runs a command and returns what it prints, without the final line end.
func output(dir, name string, args ...string) (string, error) {
	return outputWith(nil, dir, name, args...)
}

func outputWith(env []string, dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var out, failed bytes.Buffer
	c.Stdout, c.Stderr = &out, &failed
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s in %s: %w\n%s", name, strings.Join(args, " "), dir, err, &failed)
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
