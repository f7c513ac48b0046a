package command

import (
	"fmt"
	"io"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// restoring is the flags of `conclave restore`.
type restoring struct {
	connection
	keys            backupKeys
	at              string
	into, logDir    string
	path            string
	dryRun, keepNew bool
}

func newRestore() *cobra.Command {
	v := &restoring{}
	c := &cobra.Command{
		Use:   "restore BACKUP (--into DIR | --path PATH)",
		Short: "Restore a moment from a backup: a data directory, or a subtree of a running ensemble",
		Long: `With --into, it makes the data directory of a server. Stop all servers of the
ensemble, restore the same moment for each into an empty directory, put myid into
it, and start the servers when all are restored. The restored history begins above
every zxid that the backup has seen, so a server that was forgotten is not elected,
and clients that saw the end of the old history can connect.

With --path, it sets a subtree of a running ensemble to its earlier state with
ordinary transactions. Each one names the version that was read, so a concurrent
change is never overwritten: the command then ends, and can be run again.
Ephemerals are left alone, and so is /zookeeper, including the quotas. A znode that
is created again starts its counters again: names of sequential znodes below it,
and tokens made from versions, may be lower than earlier ones. If --server has a
chroot, PATH is below it, also in the backup. --dry-run prints what it would do.`,
		Example: `  conclave restore /backup --at 2026-11-24T10:00:00Z --into /var/lib/zookeeper
  conclave restore /backup --at 0x300000042 --path /app --server host:2181 --dry-run`,
		Args: takes(0, "BACKUP"),
		RunE: v.run,
	}
	v.connection.add(c)
	v.keys.addReading(c)
	c.ValidArgsFunction = nil
	f := c.Flags()
	f.StringVar(&v.at, "at", "", "the moment: a zxid, as 0x1b0, or a time with its zone, as 2026-11-24T10:00:00Z (default: the last one)")
	f.StringVar(&v.into, "into", "", "dataDir of a server that has no data yet")
	f.StringVar(&v.logDir, "log-dir", "", "dataLogDir of that server, if it is another directory")
	f.StringVar(&v.path, "path", "", "the subtree to restore in the ensemble that --server names")
	f.BoolVar(&v.dryRun, "dry-run", false, "print what would be done, and do nothing")
	f.BoolVar(&v.keepNew, "keep-new", false, "with --path: do not delete what the backup does not have")
	return c
}

func (v *restoring) run(c *cobra.Command, args []string) error {
	m, err := parseMoment(v.at)
	if err != nil {
		return err
	}
	switch {
	case (v.into == "") == (v.path == ""):
		return cli.Usage("give --into DIR or --path PATH", "no destination is named")
	case v.into != "":
		return v.directory(c, args[0], m)
	case zk.ValidatePath(v.path) != nil || isSystemPath(v.path):
		return notYours(v.path)
	}
	return v.subtree(c, args[0], m)
}

func notYours(path string) error {
	return cli.Usage("write for example --path /app", "%q is not a path of clients", path)
}

func isSystemPath(path string) bool { return path == "/zookeeper" || isBelow(path, "/zookeeper") }

func isBelow(path, parent string) bool {
	return len(path) > len(parent) && path[:len(parent)] == parent && path[len(parent)] == '/'
}

// directory creates a data directory.
func (v *restoring) directory(c *cobra.Command, from string, m backup.Moment) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	end := whileDoing(c, "loading "+redact.URL(from))
	b, state, err := loadMoment(c.Context(), &v.keys, from, m)
	end()
	if err != nil {
		return err
	}
	answer := struct {
		Zxid     string `json:"zxid"` // of the restored state
		Time     string `json:"time,omitempty"`
		Znodes   int    `json:"znodes"`
		Sessions int    `json:"sessions"`
		Begins   string `json:"begins,omitempty"` // the restored server
		DryRun   bool   `json:"dryRun,omitempty"`
	}{Zxid: state.Zxid.String(), Znodes: state.Tree().Count(), Sessions: state.Sessions(), DryRun: v.dryRun}
	if !state.Time.IsZero() {
		answer.Time = cli.Time(state.Time.UnixMilli())
	}
	if !v.dryRun {
		end := whileDoing(c, "writing "+v.into)
		begins, err := b.Restore(osfs.New(), datadir.Options{DataDir: v.into, LogDir: v.logDir}, state)
		end()
		if err != nil {
			return failedOn(err, "name a directory without data; nothing of what is there was changed")
		}
		answer.Begins = begins.String()
	}
	return p.Answer(answer, func(w io.Writer) error {
		verb, after := "restored", fmt.Sprintf("; the server begins at %s", answer.Begins)
		if v.dryRun {
			verb, after = "would restore", ""
		}
		_, err := fmt.Fprintf(w, "%s zxid %s, %s: %d znodes, %d sessions%s\n", verb, answer.Zxid, answer.Time, answer.Znodes, answer.Sessions, after)
		return err
	})
}
