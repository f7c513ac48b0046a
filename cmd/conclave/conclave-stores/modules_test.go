package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root       = "github.com/conclave-project/conclave"
	backendDir = "election/backend"
)

// goMod is the output of `go mod edit -json` for a module.
type goMod struct {
	Require []struct {
		Path     string
		Indirect bool
	}
}

// TestOneBackendResolvesNoOther: a program that imports election and one backend must not
// download, nor even resolve, the dependencies of other backends.
func TestOneBackendResolvesNoOther(t *testing.T) {
	clients := clientsOfBackends(t)
	ownModules := []string{""} // the root module alone, with the backends that it contains
	for name := range clients {
		ownModules = append(ownModules, name)
	}
	slices.Sort(ownModules)
	for _, name := range ownModules {
		imports := []string{root + "/election", root + "/election/backend/file", root + "/election/backend/zookeeper"}
		if name != "" {
			imports = []string{root + "/election", root + "/" + backendDir + "/" + name}
		}
		t.Run("with "+name, func(t *testing.T) {
			t.Parallel()
			resolved := resolve(t, name, imports)
			var own []string // including the dependencies of its clients, which another backend may use, too
			if name != "" {
				own = requirements(t, filepath.Join("../../..", backendDir, name), true)
			}
			for _, module := range slices.Concat(clients[name], []string{root}) {
				if !slices.Contains(resolved, module) {
					t.Errorf("a program with %q does not resolve %s, which it needs", name, module)
				}
			}
			for other, modules := range clients {
				if other == name {
					continue
				}
				for _, module := range slices.Concat(modules, []string{root + "/" + backendDir + "/" + other}) {
					if slices.Contains(resolved, module) && !slices.Contains(own, module) {
						t.Errorf("a program with %q resolves %s of the backend %s", name, module, other)
					}
				}
			}
		})
	}
}

// clientsOfBackends returns, for each backend of this command that is a module of its own,
// that module's direct requirements.
func clientsOfBackends(t *testing.T) map[string][]string {
	t.Helper()
	clients := make(map[string][]string)
	for _, own := range requirements(t, ".", false) {
		name, ok := strings.CutPrefix(own, root+"/"+backendDir+"/")
		if !ok {
			continue
		}
		clients[name] = slices.DeleteFunc(requirements(t, filepath.Join("../../..", backendDir, name), false),
			func(module string) bool { return module == root })
		if len(clients[name]) == 0 {
			t.Errorf("the module of %s requires nothing: it could be a package of the root module", name)
		}
	}
	if len(clients) == 0 {
		t.Fatal("this command requires no backend")
	}
	return clients
}

// requirements returns the direct requirements of the module in a directory, and with
// indirect the indirect ones, too.
func requirements(t *testing.T, dir string, indirect bool) []string {
	t.Helper()
	var mod goMod
	if err := json.Unmarshal(goCommand(t, dir, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	var required []string
	for _, r := range mod.Require {
		if indirect || !r.Indirect {
			required = append(required, r.Path)
		}
	}
	return required
}

// resolve creates a module that imports the packages, and returns the modules that a build
// of it looks at: the ones that provide its packages, and the ones in go.mod or go.sum
// afterwards.
func resolve(t *testing.T, name string, imports []string) []string {
	t.Helper()
	dir := t.TempDir()
	top, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	mod := "module example.com/program\n\ngo 1.26\n" + replaced(root, top)
	if name != "" {
		mod += replaced(root+"/"+backendDir+"/"+name, filepath.Join(top, backendDir, name))
	}
	program := "package main\n\nimport (\n"
	for _, path := range imports {
		program += fmt.Sprintf("\t_ %q\n", path)
	}
	for file, text := range map[string]string{"go.mod": mod, "main.go": program + ")\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	modules := strings.Fields(string(goCommand(t, dir, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")))
	var after goMod
	if err := json.Unmarshal(goCommand(t, dir, "mod", "edit", "-json"), &after); err != nil {
		t.Fatal(err)
	}
	for _, r := range after.Require {
		modules = append(modules, r.Path)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		modules = append(modules, strings.Fields(line)[0])
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

func replaced(module, dir string) string {
	return fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, dir)
}

// goCommand runs the go command outside the workspace. The modules that it needs are in the
// module cache after the first run. Nothing of them is executed, so their checksums, which
// are written again here, are not verified against the checksum database.
func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOSUMDB=off")
	var failed bytes.Buffer
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, &failed)
	}
	return out
}
