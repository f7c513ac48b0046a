package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

const (
	// storesProgram is this command line with the SDKs of all stores.
	storesProgram = "conclave-stores"
	storesPath    = "github.com/conclave-project/conclave/cmd/conclave/" + storesProgram
	// storesVariable tells conclave-stores the version of the conclave that becomes it, and
	// how to get the conclave-stores of that version. It is not passed on.
	storesVariable = "CONCLAVE_STORES_FOR"
)

// becomeStores replaces this process by conclave-stores, with the same command line. It
// keeps its process id, its descriptors and the signals that it ignores. Nothing is held or
// started yet, because the store is opened first. becomeStores returns only if it fails.
func becomeStores(scheme string) error {
	path := findStores()
	if path == "" {
		return cli.Failed(fmt.Errorf("%s:// needs %s, which is neither in this program's directory nor in PATH", scheme, storesProgram), getStores())
	}
	err := replaceProcess(path, append([]string{path}, os.Args[1:]...),
		append(os.Environ(), storesVariable+"="+version+" "+getStores()))
	return cli.Failed(fmt.Errorf("%s:// needs %s: start %s: %w", scheme, storesProgram, path, err), getStores())
}

// checkVersion returns an error if conclave has become a program that is not
// conclave-stores, or not of the same version.
func checkVersion() error {
	meant := os.Getenv(storesVariable)
	if meant == "" {
		return nil
	}
	_ = os.Unsetenv(storesVariable) // programs started from here must not get it
	wanted, get, _ := strings.Cut(meant, " ")
	self, err := os.Executable()
	switch {
	case err != nil:
		return cli.Failed(err, get)
	case len(linked) == 0:
		return cli.Failed(fmt.Errorf("%s is conclave, not %s", self, storesProgram), get)
	case wanted != version:
		return cli.Failed(fmt.Errorf("conclave has version %s, but %s has version %s", wanted, self, version), get)
	}
	return nil
}

// findStores returns the path of conclave-stores; "" if there is none. It looks beside this
// program, in PATH, and where go install puts programs, which often is not in PATH.
func findStores() string {
	var places []string
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			places = append(places, filepath.Join(filepath.Dir(real), storesProgram))
		}
	}
	places = append(places, storesProgram)
	for _, dir := range installDirs() {
		places = append(places, filepath.Join(dir, storesProgram))
	}
	for _, place := range places {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	return ""
}

// installDirs are the directories into which go install may have put programs.
func installDirs() []string {
	if dir := os.Getenv("GOBIN"); dir != "" {
		return []string{dir}
	}
	workspaces := filepath.SplitList(os.Getenv("GOPATH"))
	if home, err := os.UserHomeDir(); err == nil && len(workspaces) == 0 {
		workspaces = []string{filepath.Join(home, "go")}
	}
	var dirs []string
	for _, workspace := range workspaces {
		if filepath.IsAbs(workspace) {
			dirs = append(dirs, filepath.Join(workspace, "bin"))
		}
	}
	return dirs
}

// getStores returns the command that installs the conclave-stores of this version: from the
// source tree in which this program was built, if it still exists.
func getStores() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dir := filepath.Join(filepath.Dir(file), "..", "..", storesProgram)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return "go -C " + quoted(dir) + " install ."
		}
	}
	at := "v" + version
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") && !strings.Contains(info.Main.Version, "+") {
		at = info.Main.Version
	}
	return "go install " + storesPath + "@" + at
}

// quoted quotes a path for a shell.
func quoted(path string) string {
	if !strings.ContainsAny(path, " '\"\\$`&;|<>()*?[]#~") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
