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
	// storesVariable carries to conclave-stores the version of the conclave that
	// becomes it, and how to get the conclave-stores of that version. Nobody else
	// sees it.
	storesVariable = "CONCLAVE_STORES_FOR"
)

// becomeStores replaces this process by conclave-stores, with the same command
// line. It keeps its process id, its descriptors and what it ignores; nothing
// has been held or begun yet, for the store is opened first. It returns only
// if it fails.
func becomeStores(scheme string) error {
	path := findStores()
	if path == "" {
		return cli.Failed(fmt.Errorf("%s:// needs %s, which is neither in this program's directory nor in PATH", scheme, storesProgram), getStores())
	}
	err := replaceProcess(path, append([]string{path}, os.Args[1:]...),
		append(os.Environ(), storesVariable+"="+version+" "+getStores()))
	return cli.Failed(fmt.Errorf("%s:// needs %s: start %s: %w", scheme, storesProgram, path, err), getStores())
}

// checkVersion is the error of a program that conclave has become and that is
// not conclave-stores, or not of the same version.
func checkVersion() error {
	meant := os.Getenv(storesVariable)
	if meant == "" {
		return nil
	}
	_ = os.Unsetenv(storesVariable) // what is started from here has no part in it
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

// findStores returns the path of conclave-stores, "" if there is none: beside
// this program, in PATH, or where go install puts it, which often is not in
// PATH.
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

// getStores is the line that installs the conclave-stores of this version: from
// the source tree that this program was built in, if it is still there.
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

// quoted is a path as a shell reads it.
func quoted(path string) string {
	if !strings.ContainsAny(path, " '\"\\$`&;|<>()*?[]#~") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
