package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/spf13/cobra"
)

func newCheck() *cobra.Command {
	v := &check{}
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Verify a data directory without changing it",
		Example: `  conclave check /var/lib/zookeeper
  conclave check --config /etc/zookeeper/zoo.cfg`,
		Long: `Reads every snapshot and every log of a data directory to the last byte, and
says what a start would do. DIR is dataDir of the configuration: the directory
that holds version-2. Nothing is written. While a server runs there, the end of
the newest log may look torn. The exit code is 5 if there is damage, or if a
start would refuse the directory.

What a start would do depends on the configuration. --config names the file that
serve would read: its directories, jute.maxbuffer and its extrasize,
extendedTypesEnabled, and whether there are other servers. DIR is then optional;
if another DIR is given, dataLogDir of the configuration does not count. Without
--config, the server is taken for one of an ensemble, which gets from a leader
what is missing here, and needs its epoch files.`,
		Args: takes(1),
		RunE: v.run,
	}
	v.output.add(c)
	v.settings.add(c)
	c.Flags().StringVar(&v.logDir, "log-dir", "", "dataLogDir, if it is another directory")
	return c
}

// check is the flags of `conclave check`.
type check struct {
	output   outputFlag
	settings fileSettings
	logDir   string
}

func (v *check) run(c *cobra.Command, args []string) error {
	p, err := v.output.printer(c)
	if err != nil {
		return err
	}
	cfg, err := v.settings.read()
	if err != nil {
		return err
	}
	var foreign string // why the configured directory of the log was not checked
	if len(args) > 0 {
		foreign = v.settings.moveTo(&cfg, args[0])
	}
	if v.logDir != "" {
		cfg.DataLogDir, foreign = v.logDir, ""
	}
	if cfg.DataDir == "" {
		return cli.Usage("name dataDir of the configuration as DIR, or the configuration itself with --config", "no directory is named")
	}
	var end func()
	cfg.FS, end = newBar(c.ErrOrStderr(), 0).counted(cfg.FS, cfg.DataDir)
	report, err := server.Check(cfg, v.settings.known())
	end()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return cli.NotFound(err, "DIR is dataDir of the configuration, which holds a directory version-2")
	}
	if foreign != "" {
		report.Notes = append(report.Notes, foreign)
	}
	if err := p.Answer(newChecked(report), func(w io.Writer) error { return checkText(w, report) }); err != nil {
		return err
	}
	if report.Sound() {
		return nil
	}
	hint := "keep a copy of the directory before anything else, then see \"Recovery\" in docs/operations.md"
	switch {
	case report.LogElsewhere && foreign != "":
		hint = "give --log-dir: " + foreign
	case report.LogElsewhere:
		hint = "give --log-dir, or --config with the zoo.cfg that sets dataLogDir, to check both directories; do not remove anything from them"
	case report.TooLong:
		hint = "give --max-buffer, or --config with the zoo.cfg that sets jute.maxbuffer; do not remove anything from the directory"
	}
	return &cli.Error{Err: fmt.Errorf("%s: %s", cfg.DataDir, problems(len(report.Problems))), Exit: cli.ExitDamaged, Hint: hint}
}

// sameDir reports whether two names mean the same existing directory.
func sameDir(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// fileSettings are the flags that say how long records may be, and what else a start knows
// about the files.
type fileSettings struct {
	config     string
	properties []string
	maxBuffer  int
}

func (f *fileSettings) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.config, "config", "c", "", "zoo.cfg of the server")
	c.Flags().StringArrayVarP(&f.properties, "define", "D", nil, "name=value, a setting that the server is started with in addition to --config; may be repeated")
	c.Flags().IntVar(&f.maxBuffer, "max-buffer", 0, "jute.maxbuffer in bytes, if it is not in the zoo.cfg; records may be twice as long")
}

// read returns the configuration, or the usual settings without one. Without one, TTL
// znodes are not reported: nobody has said that they are turned off.
func (f *fileSettings) read() (server.Config, error) {
	cfg := server.Default()
	cfg.ExtendedTypes = true
	if f.config == "" && len(f.properties) > 0 {
		return cfg, cli.Usage("name the zoo.cfg of the server by --config", "-D is a setting beside those of a file")
	}
	if f.config != "" {
		config, err := (&serve{config: f.config, properties: f.properties}).readFile()
		if err != nil {
			return cfg, err
		}
		cfg = config.Server
	}
	cfg.FS = osfs.New()
	if f.maxBuffer > 0 {
		cfg.FrameBytesMax = f.maxBuffer
	}
	return cfg, nil
}

// known reports whether the server's configuration was given.
func (f *fileSettings) known() bool { return f.config != "" }

// moveTo changes the configuration to another data directory. Its dataLogDir belongs to its
// own dataDir: used with a copy of that directory, the log would be of another time. moveTo
// returns why the dataLogDir does not count; "" if it does, or is not set.
func (f *fileSettings) moveTo(cfg *server.Config, dir string) (why string) {
	if cfg.DataLogDir == "" || sameDir(cfg.DataDir, dir) {
		cfg.DataDir = dir
		return ""
	}
	why = fmt.Sprintf("dataLogDir of %s belongs to %s, and was not looked at", f.config, cfg.DataDir)
	cfg.DataDir, cfg.DataLogDir = dir, ""
	return why
}

func checkText(w io.Writer, r *datadir.Report) error {
	var rows [][]string
	for _, s := range r.Snapshots {
		rows = append(rows, []string{s.Name, strconv.FormatInt(s.Bytes, 10),
			fmt.Sprintf("%d znodes, %d sessions", s.Info.Nodes, s.Info.Sessions), state(s.Error, "", s.TooLong)})
	}
	for _, s := range r.Segments {
		holds := "no transactions"
		if s.Records > 0 {
			holds = fmt.Sprintf("%d transactions, %s to %s", s.Records, s.First, s.Last)
		}
		rows = append(rows, []string{s.Name, strconv.FormatInt(s.Bytes, 10), holds, state(s.Error, cmp.Or(s.Lost, s.Torn), s.TooLong)})
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

func problems(n int) string {
	if n == 1 {
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", n)
}

func state(problem, torn string, tooLong bool) string {
	switch {
	case tooLong:
		return "whole, but too long"
	case problem != "":
		return "damaged"
	case torn != "":
		return "torn end"
	}
	return "sound"
}

// startText describes what a start would do.
func startText(r *datadir.Report) string {
	switch {
	case r.Refusal != "":
		return "a start would refuse this directory"
	case r.Fresh:
		return "empty: a start would begin a new history"
	case r.Last < 0:
		return "empty: a started server would neither vote nor serve before it has the history of the ensemble"
	case r.Base == "":
		return fmt.Sprintf("a start would replay %d transactions and end at zxid %s", r.Records, r.Last)
	}
	text := fmt.Sprintf("a start would load %s, replay %d transactions and end at zxid %s", r.Base, r.Records, r.Last)
	switch {
	case r.Lost():
		text += ", without what is lost"
	case !r.Sound():
		text += "; it does not need what is damaged"
	}
	return text
}
