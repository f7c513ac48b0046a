//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// The paths of the reports and of the page, relative to the top of the tree.
const (
	reportsFile = "docs/backends.json"
	pageFile    = "docs/backends.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs the program with its arguments; it returns the exit code.
func run(ctx context.Context, args []string) int {
	r := &runner{out: os.Stdout}
	if len(args) > 0 && args[0] == "lock-experiment" {
		r.lost, args = true, args[1:]
	}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `names` of backends; empty: all")
	without := flags.String("without", "", "comma-separated `names` of backends or stores to leave out")
	quick := flags.Bool("quick", false, "leave out stores that take more than two minutes to build")
	suite := flags.Bool("suite", false, "run nothing but the suite of each backend")
	parallel := flags.Int("parallel", 1, "how many `backends` to prove at a time; they wait most of the time")
	lease := flags.Duration("lease", 0, "the least lease to test with; 0 leaves it to the suites")
	page := flags.Bool("page", false, "write "+pageFile+" from "+reportsFile+" and prove nothing")
	from := flags.String("from", "", "take the reports of an earlier run from its `directory` of logs and prove nothing")
	docs := flags.Bool("docs", true, "write what was found into "+reportsFile+" and "+pageFile)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	root, err := servers.Root()
	if err == nil {
		err = os.Chdir(root)
	}
	if err == nil {
		r.chosen, err = choose(*only, *without, *quick)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 2
	}
	if *page || *from != "" {
		r.chosen = nil
	}
	r.docs, r.suite, r.parallel, r.without = *docs, *suite, *parallel, names(*without)
	r.lease, r.from = *lease, *from
	if *quick {
		r.without = append(r.without, slowStores()...)
	}
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1
	}
	return 0
}

// logDir returns the directory for the output of the tests, and creates it if necessary.
func logDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "conclave", "conformance", time.Now().UTC().Format("20060102-150405"))
	return dir, os.MkdirAll(dir, 0o755)
}
