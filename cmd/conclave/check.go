package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/conclave-project/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/store"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/spf13/cobra"
)

func newCheck() *cobra.Command {
	var output outputFlag
	var logDir string
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "Verify a data directory without changing it",
		Long: `Reads every snapshot and every log of a data directory to its last byte, and
says what a start would do. DIR is dataDir of the configuration: the directory
that holds version-2. Nothing is written; beside a running server the end of
the newest log may look torn. The exit code is 5 if there is damage.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			report, err := store.Check(osfs.New(), store.Options{DataDir: args[0], LogDir: logDir}, nil)
			if err != nil {
				return cli.NotFound(err, "DIR is dataDir of the configuration, which holds a directory version-2")
			}
			if err := p.Answer(report, func(w io.Writer) error { return checkText(w, report) }); err != nil {
				return err
			}
			if !report.Sound() {
				return &cli.Error{Err: fmt.Errorf("%s: %d problems", args[0], len(report.Problems)), Exit: cli.ExitDamaged,
					Hint: "keep a copy of the directory, then see \"Recovery\" in docs/operations.md"}
			}
			return nil
		},
	}
	output.add(c)
	c.Flags().StringVar(&logDir, "log-dir", "", "dataLogDir, where it is another directory")
	return c
}

func checkText(w io.Writer, r *store.Report) error {
	var rows [][]string
	for _, s := range r.Snapshots {
		rows = append(rows, []string{s.Name, strconv.FormatInt(s.Bytes, 10),
			fmt.Sprintf("%d znodes, %d sessions", s.Info.Nodes, s.Info.Sessions), state(s.Error, "")})
	}
	for _, s := range r.Segments {
		holds := "no transactions"
		if s.Records > 0 {
			holds = fmt.Sprintf("%d transactions, %s to %s", s.Records, s.First, s.Last)
		}
		rows = append(rows, []string{s.Name, strconv.FormatInt(s.Bytes, 10), holds, state(s.Error, s.Torn)})
	}
	if err := cli.Table(w, []string{"FILE", "BYTES", "HOLDS", "STATE"}, rows); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "problem: %s\n", problem)
	}
	_, err := fmt.Fprintln(w, startText(r))
	return err
}

func state(problem, torn string) string {
	switch {
	case problem != "":
		return "damaged"
	case torn != "":
		return "torn end"
	}
	return "sound"
}

// startText says what a start would do.
func startText(r *store.Report) string {
	switch {
	case !r.Sound():
		return "a start would refuse this directory, or lose what the problems name"
	case r.Fresh:
		return "empty: a start would begin a new history"
	case r.Base == "":
		return fmt.Sprintf("a start would replay %d transactions and end at zxid %s", r.Records, r.Last)
	}
	return fmt.Sprintf("a start would load %s, replay %d transactions and end at zxid %s", r.Base, r.Records, r.Last)
}
