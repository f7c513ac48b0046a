//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/conclave-project/conclave/test/bench/check"
	"github.com/conclave-project/conclave/test/servers"
)

// checkCounts compares counts of this tree with those of a commit, and returns an error if
// one has grown.
func checkCounts(ctx context.Context, args []string) error {
	o := check.Options{Progress: func(what string) { fmt.Fprintln(os.Stderr, what) }}
	f := flag.NewFlagSet("bench check", flag.ExitOnError)
	f.StringVar(&o.Base, "base", "", "commit to compare with; the last one, or the one before it if nothing has changed since")
	f.BoolVar(&o.All, "all", false, "measure also what both versions build alike")
	f.BoolVar(&o.NoServer, "no-server", false, "the benchmarks alone, without the server's system calls")
	asJSON := f.Bool("json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if o.Root, err = servers.Root(); err != nil {
		return err
	}
	r, err := check.Run(ctx, o)
	if errors.Is(err, check.ErrNoBase) {
		fmt.Println(err)
		return nil
	}
	if err != nil {
		return err
	}
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(r)
	} else {
		fmt.Print(r.Text())
	}
	if grown := r.Grown(); len(grown) > 0 {
		return fmt.Errorf("bench: more than %s: %s", r.Base, strings.Join(grown, "; "))
	}
	return err
}
