package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/sealed"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

func newBackup() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup",
		Short: "Back up a running server, so that any moment can be restored",
		Example: `  conclave backup take /backup --config /etc/zookeeper/zoo.cfg
  conclave backup list /backup`,
		Long: `A backup is a set of files that never change: snapshots, and the log between
them. Every take adds what is new. Each state of the ensemble since the first
take can be restored, by zxid or by time. Each file, unpacked with gunzip, is a
ZooKeeper file.

` + placesAbout,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Args: unknownCommand,
	}
	c.AddCommand(newBackupTake(), newBackupList(), newBackupVerify(), newBackupPrune())
	return c
}

// backupTaking is the flags of `conclave backup take`.
type backupTaking struct {
	outputFlag
	tlsFlags
	keys        backupKeys
	settings    fileSettings
	dir, logDir string
	server      string
	stopped     bool
	snapshot    bool
	every, keep time.Duration
	verify      bool
	timeout     time.Duration
}

func newBackupTake() *cobra.Command {
	v := &backupTaking{}
	c := &cobra.Command{
		Use:   "take BACKUP",
		Short: "Add what is new to a backup",
		Long: `Copies to BACKUP (a directory, or the URL of an object store) what was added to
a server's log since the last take, and its newest snapshot if that is needed.
Run it on the server's machine as often as you like, for example from cron. Any
server of the ensemble will do, Apache's too. --recipient encrypts what is
written; then --identity or --verify=false is needed as well.

Only committed transactions are copied: the server is asked for the last one
with the four-letter word srvr. --stopped asks nobody. Use it for a standalone
server, or for the server with the newest data of a stopped ensemble.

The exit code is 5 if the data contradicts the backup, or if what was written
does not lead to the same tree.`,
		Example: `  conclave backup take /backup -c /etc/zookeeper/conf/zoo.cfg
  conclave backup take /backup --dir /var/lib/zookeeper --server localhost:2181 --keep-for 720h
  conclave backup take s3://my-bucket/zk -c zoo.cfg --recipient age1... --verify=false`,
		Args: takes(0, "BACKUP"),
		RunE: v.run,
	}
	v.outputFlag.add(c)
	v.tlsFlags.add(c)
	v.keys.addWriting(c)
	v.settings.add(c)
	f := c.Flags()
	f.StringVar(&v.dir, "dir", "", "dataDir of the server, without --config")
	f.StringVar(&v.logDir, "log-dir", "", "dataLogDir, if it is another directory")
	f.StringVarP(&v.server, "server", "s", "", "host:port of this server (default: the client port of --config on this host)")
	f.BoolVar(&v.stopped, "stopped", false, "the server is stopped, and everything in its log is committed")
	f.BoolVar(&v.snapshot, "snapshot", false, "copy a snapshot even if the log is enough")
	f.DurationVar(&v.every, "snapshot-every", 24*time.Hour, "copy a newer snapshot when the last one is this old: a restore reads the log from there; 0 means never")
	f.DurationVar(&v.keep, "keep-for", 0, "afterwards, remove files that are not needed for the states of this last period; 0 keeps all")
	f.BoolVar(&v.verify, "verify", true, "afterwards, load the last state from the backup and compare its digest; needs as much memory as a server")
	f.DurationVar(&v.timeout, "timeout", 10*time.Second, "how long to wait for the server")
	return c
}

func (v *backupTaking) run(c *cobra.Command, args []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if v.every < 0 || v.keep < 0 {
		return cli.Usage("write for example 24h", "--snapshot-every and --keep-for must not be negative")
	}
	if err := readyPlace(args[0]); err != nil {
		return err
	}
	source, unlock, err := v.source()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, stop := untilHungUp(c.Context())
	defer stop()
	place, unlockPlace, err := v.keys.lock(ctx, args[0])
	if err != nil {
		return err
	}
	defer unlockPlace()
	if v.verify && place.Seals() && !place.Reads() {
		return cli.Usage("also give the --identity that decrypts it, or --verify=false, and run `conclave backup verify` elsewhere",
			"the backup cannot be verified here without an identity that decrypts it")
	}
	b, err := backup.Open(ctx, place)
	if err != nil {
		return failedOn(err, "name a place that can be read and written")
	}
	end := whileDoing(c, "copying")
	taken, err := b.Take(ctx, source, backup.Options{Snapshot: v.snapshot, SnapshotEvery: v.every})
	end()
	if err != nil {
		return explainTake(err)
	}
	end = whileDoing(c, "verifying what was copied")
	err = v.prove(ctx, b, taken)
	end()
	if err != nil {
		return err
	}
	if v.keep > 0 {
		if _, err := b.Keep(ctx, time.Now(), v.keep); err != nil {
			return cli.Failed(err, "what was taken is safe; `conclave backup prune` removes again")
		}
	}
	answer := takenAnswer{taken.Snapshot, append([]string{}, taken.Logs...), taken.Transactions, taken.Bytes, taken.Last.String(), taken.Gap, ""}
	if taken.Committed != 0 {
		answer.Committed = taken.Committed.String()
	}
	return p.Answer(answer, func(w io.Writer) error { return takenText(w, &taken) })
}

// takenAnswer is what a backup has added, as JSON.
type takenAnswer struct {
	Snapshot     string   `json:"snapshot,omitempty"`
	Logs         []string `json:"logs"`
	Transactions int      `json:"transactions"`
	Bytes        int64    `json:"bytes"`
	Last         string   `json:"last"` // zxid
	Gap          bool     `json:"gap,omitempty"`
	Committed    string   `json:"committed,omitempty"` // zxid, if the log of the server ends before it
}

// source returns the directories of the server, and where to ask what is committed.
func (v *backupTaking) source() (s backup.Source, unlock func(), err error) {
	cfg, err := v.settings.read()
	if err != nil {
		return s, nil, err
	}
	if v.dir != "" {
		cfg.DataDir, cfg.DataLogDir = v.dir, ""
	}
	if v.logDir != "" {
		cfg.DataLogDir = v.logDir
	}
	if cfg.DataDir == "" {
		return s, nil, cli.Usage("name the zoo.cfg of the server with --config, or its dataDir with --dir", "no server is named")
	}
	s = backup.Source{FS: cfg.FS, BufferBytesMax: cfg.ReadBytesMax(), PayloadBytesMax: cfg.ReadBytesMax(), Now: time.Now}
	s.SnapDir, s.LogDir = datadir.Options{DataDir: cfg.DataDir, LogDir: cfg.DataLogDir}.Directories()
	if v.stopped {
		return v.stoppedSource(s)
	}
	address := v.server
	if address == "" {
		address = ownAddress(cfg.ClientAddr)
	}
	if address == "" { // cli.Servers would choose another server
		return s, nil, cli.Usage("name this server with --server zk+tls://HOST:PORT, and the authority of its certificate with --tls-ca; or give --stopped if it is stopped",
			"no clientPort is known, so the server cannot be asked what is committed")
	}
	target, err := cli.Servers(address)
	if err != nil {
		return s, nil, err
	}
	dial, err := v.tlsFlags.dial(target)
	if err != nil {
		return s, nil, err
	}
	one := cli.ServerList(target.Servers)
	if len(one) != 1 {
		return s, nil, cli.Usage("name the server whose directory it is", "--server names %d servers", len(one))
	}
	s.Committed = func(ctx context.Context) (zk.Zxid, error) {
		ctx, cancel := context.WithTimeout(ctx, v.timeout)
		defer cancel()
		return committed(ctx, asker{dial}, one[0])
	}
	return s, func() {}, nil
}

// stoppedSource makes sure that the server is stopped while its files are read.
func (v *backupTaking) stoppedSource(s backup.Source) (backup.Source, func(), error) {
	lock, err := s.FS.Lock(s.SnapDir)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return s, nil, cli.Failed(fmt.Errorf("%s: %w", s.SnapDir, err), "the server is running: leave out --stopped")
	case err != nil:
		return s, nil, failedOn(err, "--config names the zoo.cfg of the server, --dir its dataDir, which holds version-2")
	}
	s.Committed = func(context.Context) (zk.Zxid, error) { return backup.AllCommitted, nil }
	return s, func() { _ = lock.Close() }, nil
}

// ownAddress returns the address of a server for clients on its own machine.
func ownAddress(listens string) string {
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return listens
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// committed asks a server for the last zxid that it has applied. A server that serves has
// applied only what is committed.
func committed(ctx context.Context, a asker, address string) (zk.Zxid, error) {
	text, err := a.fourLetterWord(ctx, address, "srvr")
	if err != nil {
		return 0, &cli.Error{Err: fmt.Errorf("ask %s: %w", address, err), Exit: cli.ExitNoServer,
			Hint: "name the server whose directory it is with --server, or give --stopped if it is stopped"}
	}
	said := pairs(text, ": ")
	switch said["Mode"] {
	case "leader", "follower", "observer", "standalone":
	default:
		return 0, &cli.Error{Err: fmt.Errorf("%s is not serving (%s)", address, strings.TrimSpace(text)), Exit: cli.ExitNoServer,
			Hint: "try again when a leader is elected: only then is it known what is committed"}
	}
	zxid, err := strconv.ParseInt(strings.TrimPrefix(said["Zxid"], "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%s says zxid %q", address, said["Zxid"])
	}
	return zk.Zxid(zxid), nil
}

func explainTake(err error) error {
	var told *cli.Error
	switch keys := explainKeys(err); {
	case keys != nil:
		return keys
	case errors.As(err, &told):
		return err
	case errors.As(err, new(*datadir.LogElsewhere)):
		return cli.Failed(err, "--log-dir names the dataLogDir of the server; --config takes it from zoo.cfg")
	case errors.Is(err, backup.ErrOtherHistory):
		return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "it belongs to another ensemble, or the ensemble was restored or created again since: begin a new backup in an empty directory"}
	case vfs.IsTooLong(err):
		return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "give --max-buffer, or --config with the zoo.cfg that sets jute.maxbuffer"}
	case vfs.IsCorruption(err):
		return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "`conclave check` reads the whole directory; see \"Recovery\" in docs/operations.md"}
	}
	return failedOn(err, "nothing that was taken before has changed; try again")
}

// prove loads the end of the backup, to check it.
func (v *backupTaking) prove(ctx context.Context, b *backup.Backup, taken backup.Taken) error {
	if !v.verify || taken.Snapshot == "" && taken.Transactions == 0 {
		return nil
	}
	state, err := b.Load(ctx, backup.Moment{})
	if err == nil && state.Mismatches > 0 {
		err = fmt.Errorf("after %s the tree does not have the digest that the leader noted", state.FirstMismatch)
	}
	if errors.Is(err, backup.ErrOutside) {
		return cli.Failed(fmt.Errorf("nothing can be restored yet: %w", err),
			"take it again: the log of the server does not yet lead to the end of the snapshot that was copied")
	}
	if keys := explainKeys(err); keys != nil {
		return keys
	}
	if err != nil {
		return &cli.Error{Err: fmt.Errorf("verify the backup: %w", err), Exit: cli.ExitDamaged,
			Hint: "read the server's directory with `conclave check`; back up another server, into a new directory"}
	}
	return nil
}

func takenText(w io.Writer, t *backup.Taken) error {
	if t.Gap {
		fmt.Fprintln(w, "the server's log does not continue the last take (it was purged, or the leader sent its state): the states in between are lost; take more often, or purge less")
	}
	if t.Committed != 0 {
		fmt.Fprintf(w, "the server has committed zxid %s, but its log ends before: if the next take says so too, name its dataLogDir with --log-dir\n", t.Committed)
	}
	if t.Snapshot == "" && t.Transactions == 0 {
		_, err := fmt.Fprintf(w, "nothing new: the backup ends at zxid %s\n", t.Last)
		return err
	}
	what := fmt.Sprintf("%d transactions", t.Transactions)
	if t.Snapshot != "" {
		what = "a snapshot and " + what
	}
	_, err := fmt.Fprintf(w, "%s taken, %d bytes: the backup ends at zxid %s\n", what, t.Bytes, t.Last)
	return err
}

// readBackup opens a backup for reading.
func readBackup(ctx context.Context, keys *backupKeys, name string) (*backup.Backup, error) {
	place, err := keys.open(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := backup.Open(ctx, place)
	if err != nil {
		return nil, failedOn(err, "name the place that `conclave backup take` wrote to")
	}
	if len(b.Ranges()) == 0 {
		return nil, cli.NotFound(fmt.Errorf("%s holds no backup", redact.URL(name)), "name the place that `conclave backup take` wrote to")
	}
	return b, nil
}

// readBackup opens a backup for a command that answers about it.
func (o *outputFlag) readBackup(c *cobra.Command, keys *backupKeys, place string) (*cli.Printer, *backup.Backup, error) {
	p, err := o.printer(c)
	if err != nil {
		return nil, nil, err
	}
	b, err := readBackup(c.Context(), keys, place)
	return p, b, err
}

func newBackupList() *cobra.Command {
	var output outputFlag
	var keys backupKeys
	c := &cobra.Command{
		Use:     "list BACKUP",
		Short:   "Print which states a backup can restore",
		Example: `  conclave backup list /backup`,
		Long: `Prints a line for each snapshot of the backup: every state between FROM and TO
can be restored. If a line ends before the next one begins, the server's log did
not continue the take before. Times are those of the transactions, by the clocks
of the leaders; if nothing is known from before a snapshot, FROM is when it was
copied. For an encrypted backup, FROM is also that time unless --identity is
given.`,
		Args: takes(0, "BACKUP"),
		RunE: func(c *cobra.Command, args []string) error {
			p, b, err := output.readBackup(c, &keys, args[0])
			if err != nil {
				return err
			}
			timed, err := b.TimedRanges(c.Context())
			if err != nil && !errors.Is(err, sealed.ErrNoIdentity) {
				fmt.Fprintf(c.ErrOrStderr(), "conclave: FROM is when snapshots were copied: %s\n", cli.Visible(err.Error()))
			}
			ranges := newRestorable(timed)
			return p.Answer(ranges, func(w io.Writer) error {
				var rows [][]string
				for _, r := range ranges {
					rows = append(rows, []string{r.From, r.FromTime, r.To, r.ToTime, strconv.Itoa(r.Files)})
				}
				return cli.Table(w, []string{"FROM ZXID", "FROM", "TO ZXID", "TO", "FILES"}, rows)
			})
		},
	}
	output.add(c)
	keys.addReading(c)
	return c
}

// restorable is a range of moments that can be restored, as JSON and as text.
type restorable struct {
	From     string `json:"from"` // zxid
	FromTime string `json:"fromTime"`
	To       string `json:"to"`
	ToTime   string `json:"toTime"`
	Files    int    `json:"files"`
}

func newRestorable(ranges []backup.Range) []restorable {
	all := make([]restorable, len(ranges))
	for i, r := range ranges {
		all[i] = restorable{r.First.String(), cli.Time(r.FirstTime.UnixMilli()), r.Last.String(), cli.Time(r.LastTime.UnixMilli()), r.Files}
	}
	return all
}

func newBackupVerify() *cobra.Command {
	var output outputFlag
	var keys backupKeys
	c := &cobra.Command{
		Use:     "verify BACKUP",
		Short:   "Load all of a backup and compare every digest",
		Example: `  conclave backup verify /backup`,
		Long: `Loads every snapshot and replays every transaction. It compares the digest of the
tree after each transaction with the one that the leader noted, and each snapshot
with the tree to which the one before leads. It needs as much memory as a server.
It reports missing states: the log was purged before it was taken, or a file of
the backup is gone. The exit code is 5 if something is damaged.`,
		Args: takes(0, "BACKUP"),
		RunE: func(c *cobra.Command, args []string) error {
			p, b, err := output.readBackup(c, &keys, args[0])
			if err != nil {
				return err
			}
			end := whileDoing(c, "verifying "+redact.URL(args[0]))
			state, err := b.Verify(c.Context())
			end()
			if keys := explainKeys(err); keys != nil {
				return keys
			}
			if err != nil {
				return &cli.Error{Err: fmt.Errorf("verify %s: %w", redact.URL(args[0]), err), Exit: cli.ExitDamaged,
					Hint: "the states before the damage can be restored; begin a new backup"}
			}
			ranges, err := b.TimedRanges(c.Context())
			if err != nil {
				return err
			}
			answer := struct {
				Ranges []restorable `json:"ranges"`
				Zxid   string       `json:"zxid"`
				Znodes int          `json:"znodes"`
			}{newRestorable(ranges), state.Zxid.String(), state.Tree().Count()}
			return p.Answer(answer, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "sound: it ends at zxid %s with %d znodes\n", answer.Zxid, answer.Znodes)
				for _, gap := range b.Gaps() {
					_, more := fmt.Fprintf(w, "no state between zxid %s and %s can be restored: the log was purged before it was taken, "+
						"or a file of the backup is gone\n", gap.After, gap.Before)
					err = errors.Join(err, more)
				}
				return err
			})
		},
	}
	output.add(c)
	keys.addReading(c)
	return c
}

func newBackupPrune() *cobra.Command {
	var output outputFlag
	var keep time.Duration
	c := &cobra.Command{
		Use:     "prune BACKUP --keep-for TIME",
		Short:   "Remove files that no recent state needs",
		Example: `  conclave backup prune /backup --keep-for 720h`,
		Long: `Removes the files that are not needed to restore the states of the last TIME,
counted from now, or from the last transaction in the backup if that is older.
The newest snapshot, and the log after it, always stay.`,
		Args: takes(0, "BACKUP"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			if keep <= 0 {
				return cli.Usage("write for example --keep-for 720h", "--keep-for %v keeps nothing", keep)
			}
			if _, err := readBackup(c.Context(), &backupKeys{}, args[0]); err != nil {
				return err // the directory belongs to something else
			}
			place, unlock, err := (&backupKeys{}).lock(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer unlock()
			b, err := backup.Open(c.Context(), place)
			if err != nil {
				return failedOn(err, "name a place that can be written")
			}
			removed, err := b.Keep(c.Context(), time.Now(), keep)
			if err != nil {
				return cli.Failed(err, "what is left is whole: try again")
			}
			answer := struct {
				Removed []string `json:"removed"`
			}{append([]string{}, removed...)}
			return p.Answer(answer, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d files removed\n", len(removed))
				return err
			})
		},
	}
	output.add(c)
	c.Flags().DurationVar(&keep, "keep-for", 0, "how far back states can be restored, as 720h")
	_ = c.MarkFlagRequired("keep-for")
	return c
}
