//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A suite is one client with its tests.
type suite struct {
	name  string
	needs []need

	// ownServers: the suite starts servers itself and needs only their kind.
	ownServers bool

	// tls: the suite's clients support TLS.
	tls bool

	// byName: the suite takes long, and runs only if it is named.
	byName bool

	// run runs all tests. It returns an error if the suite could not run; a failed test is
	// a result.
	run func(ctx context.Context, e *environment) ([]result, error)
}

// environment is the environment of a suite.
type environment struct {
	root, cache string   // the source tree; a directory that is kept between runs
	variables   []string // additional environment variables
	tls         bool     // the clients use TLS
}

// suites are in the order in which they run, the quick ones first.
var suites = []suite{
	{name: "c", needs: []need{needCC, needZooKeeperC}, run: runC},
	{name: "go", tls: true, run: runGo},
	{name: "python", needs: []need{needVenv}, tls: true, run: runPython},
	{name: "java", needs: []need{needJava, needMaven}, tls: true, run: runJava},
	{name: "prometheus", needs: []need{needPrometheus}, ownServers: true, run: runPrometheus},
	{name: "browser", needs: []need{needChromium, needNPM}, ownServers: true, run: runBrowser},
	{name: "terminal", needs: []need{needTmux}, ownServers: true, run: runTerminal},
	{name: "zkcli", needs: []need{needJava, needMaven}, ownServers: true, run: runZKCli},
	{name: "zookeeper", needs: []need{needJava, needMaven}, ownServers: true, byName: true, run: runOwnTests("zookeeper", zooKeeperTests)},
	{name: "curator", needs: []need{needJava, needMaven}, ownServers: true, byName: true, run: runOwnTests("curator", curatorTests)},
	{name: "applications", needs: []need{needJava, needMaven, needNPM, needVenv, needPostgreSQL, needClickHouse, needPrometheus, needKDC}, ownServers: true, byName: true, run: runApplications},
	{name: "directories", needs: []need{needJava, needMaven, needKDC}, ownServers: true, run: runDirectories},
}

func suiteNames() []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

// longSuites returns the suites that run only by name.
func longSuites() []string {
	var names []string
	for _, s := range suites {
		if s.byName {
			names = append(names, s.name)
		}
	}
	return names
}

// command runs a program in a directory of the tree and returns its output, and whether its
// exit code was 0. Most test programs report a failed test by another exit code, so that is
// not an error here.
func (e *environment) command(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = filepath.Join(e.root, dir)
	c.Env = append(os.Environ(), e.variables...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// scratch returns an empty directory for a suite's build and reports.
func (e *environment) scratch(name string) (string, error) {
	dir := filepath.Join(e.cache, "interop-"+name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// runC compiles test/interop/c against the system's C client and parses its output lines
// "ok NAME" and "not ok NAME: WHY".
func runC(ctx context.Context, e *environment) ([]result, error) {
	dir, err := e.scratch("c")
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "interop")
	out, err := e.command(ctx, "test/interop/c", "cc", "-O1", "-Wall", "-Werror", "-DTHREADED",
		"-o", binary, "interop.c", "-lzookeeper_mt", "-lpthread")
	if err != nil {
		return nil, fmt.Errorf("compile the C suite: %w\n%s", err, out)
	}
	out, err = e.command(ctx, "test/interop/c", binary)
	results := parseLines(out)
	if len(results) == 0 {
		return nil, fmt.Errorf("the C suite printed no result: %v\n%s", err, out)
	}
	return endedWell(results, err, out), nil
}

// runGo runs the module test/interop/gozk outside the workspace.
func runGo(ctx context.Context, e *environment) ([]result, error) {
	e.variables = append(e.variables, "GOWORK=off")
	out, err := e.command(ctx, "test/interop/gozk", "go", "test", "-count=1", "-json", "-tags=interop", "./...")
	return parseGoTest(out, err)
}

// runDirectories runs the Go tests of test/interop: they exchange data directories, and let
// Java's clients authenticate.
func runDirectories(ctx context.Context, e *environment) ([]result, error) {
	out, err := e.command(ctx, ".", "go", "test", "-count=1", "-json", "-tags=interop", "./test/interop")
	return parseGoTest(out, err)
}

// runPrometheus has Prometheus scrape three servers: test/monitoring.
func runPrometheus(ctx context.Context, e *environment) ([]result, error) {
	out, err := e.command(ctx, ".", "go", "test", "-count=1", "-json", "-tags=interop", "./test/monitoring")
	return parseGoTest(out, err)
}

// axeVersion is the accessibility checker for pages.
const axeVersion = "axe-core@4.10.3"

// runBrowser makes the documentation site and drives it, the laboratory and the dashboard
// in Chromium, with the modules tools/site and test/browser, outside the workspace.
func runBrowser(ctx context.Context, e *environment) ([]result, error) {
	dir := filepath.Join(e.cache, "axe")
	axe := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(axe); err != nil {
		if out, err := e.command(ctx, ".", "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, axeVersion); err != nil {
			return nil, fmt.Errorf("install %s: %w\n%s", axeVersion, err, out)
		}
	}
	e.variables = append(e.variables, "GOWORK=off", "AXE="+axe)
	var all []result
	for _, module := range []string{"tools/site", "test/browser"} {
		out, err := e.command(ctx, module, "go", "test", "-count=1", "-json", "-tags=interop", "./...")
		results, err := parseGoTest(out, err)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// runTerminal types into tmux: test/terminal.
func runTerminal(ctx context.Context, e *environment) ([]result, error) {
	out, err := e.command(ctx, ".", "go", "test", "-count=1", "-json", "-tags=interop", "./test/terminal")
	return parseGoTest(out, err)
}

// runApplications has programs that are built on ZooKeeper do their own work: test/applications.
func runApplications(ctx context.Context, e *environment) ([]result, error) {
	out, err := e.command(ctx, ".", "go", "test", "-count=1", "-json", "-tags=applications", "-timeout=90m", "./test/applications")
	return parseGoTest(out, err)
}

// runZKCli runs scripts with Apache's zkCli.sh and with conclave sh: test/zkcli.
func runZKCli(ctx context.Context, e *environment) ([]result, error) {
	out, err := e.command(ctx, ".", "go", "test", "-count=1", "-json", "-tags=interop", "./test/zkcli")
	return parseGoTest(out, err)
}

// runPython runs test/interop/python in a virtual environment that is kept between runs.
func runPython(ctx context.Context, e *environment) ([]result, error) {
	venv := filepath.Join(e.cache, "venv")
	python := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		if out, err := e.command(ctx, ".", "python3", "-m", "venv", venv); err != nil {
			return nil, fmt.Errorf("make a Python environment: %w\n%s", err, out)
		}
	}
	out, err := e.command(ctx, "test/interop/python", python, "-m", "pip", "install", "-q",
		"--disable-pip-version-check", "-r", "requirements.txt")
	if err != nil {
		return nil, fmt.Errorf("install the Python packages: %w\n%s", err, out)
	}
	dir, err := e.scratch("python")
	if err != nil {
		return nil, err
	}
	xml := filepath.Join(dir, "junit.xml")
	out, err = e.command(ctx, "test/interop/python", python, "-B", "-m", "pytest", "-q",
		"-p", "no:cacheprovider", "--junitxml="+xml)
	return parseJUnit([]string{xml}, out, err)
}

// runJava runs test/interop/java with Maven, and compiles the program of docs/coming-from
// that needs an additional library.
func runJava(ctx context.Context, e *environment) ([]result, error) {
	shown, err := e.scratch("comingfrom")
	if err != nil {
		return nil, err
	}
	if out, err := e.command(ctx, "test/comingfrom/java", "mvn", "-B", "-ntp", "-Dinterop.build="+shown, "compile"); err != nil {
		return nil, fmt.Errorf("compile the program of docs/coming-from/dynamodb.md: %w\n%s", err, out)
	}
	dir, err := e.scratch("java")
	if err != nil {
		return nil, err
	}
	args := []string{"mvn", "-B", "-ntp", "-Dinterop.build=" + dir, "test"}
	if !e.tls {
		args = append(args, "-Dtest=!TlsTest") // a skipped test would count as failed
	}
	out, err := e.command(ctx, "test/interop/java", args...)
	files, globErr := filepath.Glob(filepath.Join(dir, "surefire-reports", "TEST-*.xml"))
	if globErr != nil {
		return nil, globErr
	}
	return parseJUnit(files, out, err)
}
