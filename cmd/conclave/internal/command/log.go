package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// logs is the flags of `conclave log`.
type logs struct {
	outputFlag
	from, to, session string
	since, until      string
	path              string
	data              bool
	settings          fileSettings
	bytesMax          int

	first, last zk.Zxid
	owner       zk.SessionID
	begin, end  time.Time // zero if not given
}

func newLog() *cobra.Command {
	v := &logs{}
	c := &cobra.Command{
		Use:   "log DIR|FILE...",
		Short: "Print the transactions of a log",
		Long: `Prints the transactions of a log, oldest first, one per line. DIR is dataLogDir
(or dataDir) of the configuration, or its version-2; FILE is a log.* in it.
Nothing is written. A torn end, which a crash leaves, is reported on standard
error; damage ends the command with exit code 5.`,
		Example: `  conclave log /var/lib/zookeeper --path /app
  conclave log /var/lib/zookeeper/version-2/log.1a3 --from 0x1b0 --to 0x1c0 -o json`,
		Args: takes(-1, "DIR or FILE"),
		RunE: v.run,
	}
	v.add(c)
	v.settings.add(c)
	c.Flags().StringVar(&v.from, "from", "", "first zxid, as 0x1b0 or decimal")
	c.Flags().StringVar(&v.to, "to", "", "last zxid")
	c.Flags().StringVar(&v.since, "since", "", "only those at or after this time, as 2026-11-24T10:00:00Z, or how long ago it was, as 2h")
	c.Flags().StringVar(&v.until, "until", "", "only those before this time, in the same forms")
	c.Flags().StringVar(&v.session, "session", "", "only those of this session, as 0x100...")
	c.Flags().StringVar(&v.path, "path", "", "only those that touch this znode or one below it")
	c.Flags().BoolVar(&v.data, "data", false, "print data as well")
	return c
}

func (v *logs) run(c *cobra.Command, args []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if err := v.parse(); err != nil {
		return err
	}
	cfg, err := v.settings.read()
	if err != nil {
		return err
	}
	v.bytesMax = cfg.ReadBytesMax()
	for _, arg := range args {
		readers, err := v.openLogs(arg)
		if err != nil {
			return err
		}
		for _, r := range readers {
			if err := v.print(c, p, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// parse reads the filters.
func (v *logs) parse() error {
	v.last = 1<<63 - 1
	for _, one := range []struct {
		flag, text string
		into       *int64
	}{{"from", v.from, (*int64)(&v.first)}, {"to", v.to, (*int64)(&v.last)}, {"session", v.session, (*int64)(&v.owner)}} {
		if one.text == "" {
			continue
		}
		n, err := strconv.ParseUint(one.text, 0, 64)
		if err != nil {
			return cli.Usage("write a number, as 0x1b0 or decimal", "--%s %s is not a number", one.flag, one.text)
		}
		*one.into = int64(n)
	}
	var err error
	if v.begin, err = parseTime("--since", v.since); err == nil {
		v.end, err = parseTime("--until", v.until)
	}
	switch {
	case err != nil:
		return err
	case v.path != "" && zk.ValidatePath(v.path) != nil:
		return cli.Usage("write for example --path /app", "--path %q is not the path of a znode", v.path)
	case v.last < v.first || v.until != "" && !v.begin.Before(v.end):
		return cli.Usage("exchange them", "nothing is between --from and --to, or --since and --until: the second is before the first")
	}
	return nil
}

// parseTime parses a time, or a duration before now; "" gives the zero time.
func parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, cli.Usage("write a time with its zone, as 2026-11-24T10:00:00Z, or how long ago it was, as 2h", "%s %s is no time", flag, text)
	}
	return at, nil
}

// openLogs opens the log files that an argument names, with one reader for each: a tool
// that examines damage must not stop at a gap between files.
func (v *logs) openLogs(arg string) ([]*txnlog.Reader, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	case err != nil:
		return nil, cli.NotFound(fmt.Errorf("open log: %w", err), "name a data directory or a file log.*")
	}
	options := txnlog.ReadOptions{AllowGaps: true, PayloadBytesMax: v.bytesMax}
	if !info.IsDir() {
		dir, name := filepath.Split(arg)
		first, ok := txnlog.ParseSegmentName(name)
		if !ok {
			return nil, cli.Usage("log files are named log. and a zxid in hexadecimal", "%s is not the name of a log", arg)
		}
		return []*txnlog.Reader{txnlog.NewSegmentReader(osfs.New(), filepath.Clean(dir), txnlog.Segment{Name: name, First: first}, options)}, nil
	}
	dir := arg
	if inner := filepath.Join(arg, "version-2"); isDir(inner) {
		dir = inner
	}
	segments, err := txnlog.Segments(osfs.New(), dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	case err != nil:
		return nil, cli.Failed(err, "name a data directory or a file log.*")
	}
	if len(segments) == 0 {
		return nil, cli.NotFound(fmt.Errorf("no log.* in %s", dir), "if dataLogDir is set, the logs are there")
	}
	readers := make([]*txnlog.Reader, len(segments))
	for i, s := range segments {
		readers[i] = txnlog.NewSegmentReader(osfs.New(), dir, s, options)
	}
	return readers, nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// print reads one file to its end.
func (v *logs) print(c *cobra.Command, p *cli.Printer, r *txnlog.Reader) error {
	defer r.Close()
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			if torn := r.Torn(); torn != nil {
				fmt.Fprintf(c.ErrOrStderr(), "%s ends torn at offset %d: %s\n", torn.File, torn.Offset, torn.Found)
			}
			return nil
		}
		if err == nil {
			err = v.record(p, &record)
		}
		if vfs.IsTooLong(err) {
			return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "give --max-buffer, or --config with the zoo.cfg that sets jute.maxbuffer"}
		}
		if err != nil {
			return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "`conclave check` reads the whole directory; see \"Recovery\" in docs/operations.md"}
		}
	}
}

func (v *logs) record(p *cli.Printer, record *txnlog.Record) error {
	if record.Zxid < v.first || record.Zxid > v.last {
		return nil
	}
	h, t, digest, err := txn.Decode(record.Payload)
	if err != nil {
		return fmt.Errorf("%s at offset %d: %w", record.File, record.Offset, err)
	}
	if at := time.UnixMilli(h.Time); at.Before(v.begin) || !v.end.IsZero() && !at.Before(v.end) {
		return nil
	}
	if v.owner != 0 && h.Session != v.owner || v.path != "" && !touches(&t, strings.TrimSuffix(v.path, "/")) {
		return nil
	}
	one := newLogged(&h, &t, v.data)
	if digest.Version != 0 {
		one.Digest = strconv.FormatUint(digest.Value, 10)
	}
	return p.Line(one, one.text())
}

// touches reports whether a transaction names a znode or one below it.
func touches(t *zk.Txn, path string) bool {
	below := func(p string) bool { return p != "" && (p == path || strings.HasPrefix(p, path+"/")) }
	if below(t.Path) {
		return true
	}
	for _, p := range t.Paths {
		if below(p) {
			return true
		}
	}
	for i := range t.Sub {
		if touches(&t.Sub[i], path) {
			return true
		}
	}
	return false
}
