//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/conclave-project/conclave/test/bench/scale"
	"github.com/conclave-project/conclave/test/servers"
)

// measureScale prints how a server copes with size.
func measureScale(ctx context.Context, args []string) error {
	started := time.Now()
	o := scale.Options{Progress: func(what string) {
		fmt.Fprintf(os.Stderr, "%5.0f s  %s\n", time.Since(started).Seconds(), what)
	}}
	f := flag.NewFlagSet("bench scale", flag.ExitOnError)
	chosen := f.String("parts", "", "what to measure, some of "+strings.Join(scale.Parts(), ",")+"; all if empty")
	config := f.String("config", "", "further lines of zoo.cfg, separated by commas")
	f.BoolVar(&o.Full, "full", false, "the sizes of the aims, as far as the machine bears them: an hour, 20 GiB of memory and of disk")
	asJSON := f.Bool("json", false, "print JSON, a table a line")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *chosen != "" {
		o.Parts = strings.Split(*chosen, ",")
	}
	if *config != "" {
		o.Config = strings.Split(*config, ",")
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if err := servers.Conclave().Install(ctx); err != nil {
		return err
	}
	if !*asJSON {
		fmt.Println(machine())
	}
	out := json.NewEncoder(os.Stdout)
	return scale.Run(ctx, o, func(t *scale.Table) {
		if !*asJSON {
			fmt.Printf("\n%s", t.Text())
		} else if err := out.Encode(t); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
}
