package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/conclave-project/conclave/cmd/conclave/internal/autobackup"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/dashboard"
	"github.com/conclave-project/conclave/cmd/conclave/internal/sdnotify"
	"github.com/conclave-project/conclave/cmd/conclave/internal/traces"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/spf13/cobra"
)

// serve is the flags of `conclave serve`.
type serve struct {
	config     string
	properties []string
	check      bool
	log        logFlags
}

// settings are the flags that stand for one key of zoo.cfg.
var settings = []struct{ flag, key, help string }{
	{"data-dir", "dataDir", "directory for snapshots, and for the log unless --data-log-dir is given"},
	{"data-log-dir", "dataLogDir", "directory for the transaction log"},
	{"port", "clientPort", "client port"},
	{"address", "clientPortAddress", "address on which to open the client port (default all)"},
	{"tick-time", "tickTime", "length of a tick in milliseconds; session timeouts are 2 to 20 ticks"},
	{"max-conns-per-ip", "maxClientCnxns", "connections from one address; 0 is no limit"},
	{"http", "conclave.httpAddress", "serve the dashboard on this loopback address, such as 127.0.0.1:8080"},
	{"words", "4lw.commands.whitelist", "four-letter words to answer in addition to srvr; * is all"},
}

func newServe() *cobra.Command {
	v := &serve{}
	c := &cobra.Command{
		Use:   "serve [PORT DATADIR [TICKTIME [MAXCLIENTCNXNS]]]",
		Short: "Serve ZooKeeper's clients from a data directory",
		Long: `Serves ZooKeeper's client protocol from ZooKeeper's own files, standalone or as
one server of an ensemble.

The configuration is a zoo.cfg, flags, or Apache's short form; the command line
overrides the file. docs/configuration.md lists every key.`,
		Example: `  conclave serve --config /etc/zookeeper/zoo.cfg
  conclave serve --data-dir /var/lib/zookeeper --port 2181
  conclave serve --config zoo.cfg -D zookeeper.snapCount=50000`,
		Args: takes(4),
		RunE: func(c *cobra.Command, args []string) error {
			err := v.run(c, args)
			if err == nil || v.check {
				return err
			}
			_, _, code := cli.Describe(err)
			return &exitError{code, err} // which is printed for a moment only, so that a service manager can act
		},
	}
	c.Flags().StringVarP(&v.config, "config", "c", "", "zoo.cfg to read")
	c.Flags().StringArrayVarP(&v.properties, "define", "D", nil, "name=value: a Java property of ZooKeeper, or any key of zoo.cfg; may be repeated")
	c.Flags().BoolVar(&v.check, "check", false, "read the configuration, print what is wrong with it and who could do what, and do not serve")
	v.log.add(c)
	for _, s := range settings {
		c.Flags().String(s.flag, "", s.help)
	}
	return c
}

func (v *serve) run(c *cobra.Command, args []string) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // if the reader of the log ends, lines are lost, but not the server
	crashBySignal()
	keepMemory()
	bar := newBar(c.ErrOrStderr(), 0)
	logger, err := v.log.logger(bar)
	if err != nil {
		return err
	}
	if !v.check {
		var wait func()
		logger, wait = server.LogAside(logger) // nothing in the process waits for the reader of the log
		defer wait()
	}
	config, err := v.read(c, args)
	if err != nil {
		return err
	}
	for _, remark := range append(config.Remarks, v.unreadScripts(os.Getenv)...) {
		logger.Warn(remark)
	}
	for _, note := range config.Notes {
		logger.Info(note)
	}
	ports, err := openTLS(config, logger)
	if err != nil {
		return err
	}
	tokens, err := readTokens(config)
	if err != nil {
		return err
	}
	cfg := config.Server
	if u, err := user.Current(); err == nil {
		cfg.Audit.User = u.Username
	}
	if file, err := filepath.EvalSymlinks(cfg.AuditFile()); err == nil {
		cfg.Audit.File = file // the file is renamed when it is full, which must not happen to a link such as /dev/stdout
	}
	if err := openSASL(&cfg, config, logger); err != nil {
		return err
	}
	_, descriptors := admin.Descriptors()
	if most := connsOf(descriptors); most > 0 && (cfg.ConnsMax <= 0 || cfg.ConnsMax > most) {
		if cfg.ConnsMax > most {
			logger.Warn("maxCnxns is more than the limit of file descriptors (ulimit -n) leaves for clients", "maxCnxns", cfg.ConnsMax, "used", most)
		}
		cfg.ConnsMax = most
	}
	if err := readyBackups(&config.Backup); err != nil {
		return err
	}
	if address := config.HTTP.Address; address != "" {
		if err := dashboard.CheckAddress(address); err != nil {
			return err
		}
	}
	if v.check {
		fmt.Fprintf(c.OutOrStdout(), "serves %s from %s%s\n", addresses(config), config.Server.DataDir, place(&config.Server))
		fmt.Fprint(c.OutOrStdout(), posture(config, &cfg))
		return nil
	}
	operators, err := openOperatorPorts(config, ports, tokens)
	if err != nil {
		return cmp.Or(inUse(&cfg), err)
	}
	defer operators.close()
	logger.Info("starting", "version", strings.TrimSuffix(versionLine(), "\n"), "pid", os.Getpid())
	var end func()
	cfg.FS, end = bar.counted(osfs.New().Keeping(filesKept), cfg.DataDir)
	cfg.Logger = logger
	ports.secure(&cfg, config)
	commands := admin.Commands{Version: version, Built: built()}
	cfg.Commands = commands
	h := helpers{backups: openBackups(&config.Backup, &cfg), spans: openTraces(config.TraceEndpoint, &cfg),
		manager: sdnotify.FromEnvironment(os.Getenv, logger)}
	// Handle signals before the port opens: from then on there may be clients, and the
	// operator may interrupt.
	ctx, stop := untilInterrupted(c.Context())
	defer stop()
	s, err := startServer(ctx, cfg)
	end()
	switch {
	case err != nil:
		return cli.Failed(err, startHint(err))
	case s == nil:
		logger.Info("stopped before the start was complete")
		return nil
	}
	logger.Info("listening", "address", addresses(config), "dir", cfg.DataDir)
	operators.serve(s, commands, logger)
	url, endDashboard, err := serveDashboard(ctx, config.HTTP.Address, ownDashboard(s, commands, tokens.admin.First), config.HTTP.Changes, logger)
	if err != nil {
		return err
	}
	defer endDashboard()
	if url != "" {
		logger.Info("the dashboard is served", "url", url, "changes", config.HTTP.Changes)
	}
	defer ports.watch(ctx)()
	return serveUntil(ctx, s, logger, h)
}

// startServer is server.New, which may read for minutes, but it returns nil without waiting once
// ctx ends. The process must end then; to be killed at any moment does no harm to a directory.
func startServer(ctx context.Context, cfg server.Config) (*server.Server, error) {
	type result struct {
		s   *server.Server
		err error
	}
	started := make(chan result, 1)
	go func() {
		s, err := server.New(cfg)
		started <- result{s, err}
	}()
	select {
	case r := <-started:
		return r.s, r.err
	case <-ctx.Done():
		return nil, nil
	}
}

// descriptorsKept are the file descriptors that are not for clients but for files of the
// log and of snapshots, other servers, and operators. A server that cannot open the next
// file of its log ends.
const descriptorsKept = 512

// filesKept are the descriptors that are kept open for files, more than are opened at the same
// time. The ports of servers and operators have limits of their own, which together may be more
// than descriptorsKept.
const filesKept = 16

// connsOf returns how many connections clients may have at most, by the limit of file
// descriptors; zero, for no limit, if the system reports none.
func connsOf(descriptors uint64) int {
	if descriptors == 0 || descriptors > 1<<30 {
		return 0
	}
	return int(max(descriptors/2, descriptors-min(descriptors, descriptorsKept)))
}

// place describes a server's place in its ensemble; nothing for a standalone server.
func place(cfg *server.Config) string {
	if cfg.Ensemble == nil {
		return ""
	}
	role := "participant"
	if cfg.Observer {
		role = "observer"
	}
	return fmt.Sprintf(" as server %d of %d, %s", cfg.ID, len(cfg.Ensemble.Members), role)
}

// inUse returns an error if another process serves from the directory, nil if none does: it
// explains why ports are in use when a server is started twice. It creates nothing.
func inUse(cfg *server.Config) error {
	for _, dir := range []string{cfg.DataDir, cmp.Or(cfg.DataLogDir, cfg.DataDir)} {
		dir = filepath.Join(dir, "version-2")
		lock, err := osfs.New().Lock(dir)
		if errors.Is(err, vfs.ErrLocked) {
			return cli.Failed(fmt.Errorf("%s is in use by another process, perhaps this server already: %w", dir, err), "stop it, or name another directory")
		}
		if err == nil {
			_ = lock.Close()
		}
	}
	return nil
}

// startHint returns a hint about a server that does not start.
func startHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process listens there, perhaps this server already: stop it, or choose another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine has no such address: name one of its own, or none for all"
	case errors.As(err, new(*net.DNSError)):
		return "the name has no address here: correct it in the line server.N of this server, or make it resolve; it may come from a reconfig"
	case errors.Is(err, server.ErrAudit):
		return "name a file that this user may write with conclave.auditFile, or set audit.enable=false"
	case errors.Is(err, fs.ErrPermission):
		return "run it as the user that owns the data directory; ports below 1024 need an extra privilege"
	}
	return "`conclave check DIR` looks at a data directory without changing it; docs/operations.md says what to do about what it finds"
}

// helpers work beside a server; nil if the configuration asks for none.
type helpers struct {
	backups *autobackup.Runner
	spans   *traces.Exporter
	manager *sdnotify.Manager
}

// openTraces returns the exporter of a server's spans; nil if nothing is traced.
func openTraces(endpoint string, cfg *server.Config) *traces.Exporter {
	if endpoint == "" {
		return nil
	}
	spans := traces.New(endpoint, version, strconv.FormatUint(uint64(cfg.ID), 10), cfg.Clock, cfg.Logger)
	cfg.Trace.Sink, cfg.Trace.Report = spans.Add, spans.Report
	return spans
}

// serveUntil runs a server until ctx ends, and then stops it in order.
func serveUntil(ctx context.Context, s *server.Server, logger *slog.Logger, h helpers) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { server.TightenHeap(ctx) })
	if h.backups != nil {
		running.Go(func() { h.backups.Run(ctx, s) })
	}
	if h.manager != nil {
		running.Go(func() { h.manager.Run(ctx, s) })
	}
	if h.spans != nil {
		running.Go(func() { h.spans.Run(ctx) })
	}
	if err := s.Run(ctx); err != nil {
		return cli.Failed(fmt.Errorf("the server has stopped: %w", err),
			"everything acknowledged so far is on disk; start it again when the cause is gone, see docs/operations.md")
	}
	logger.Info("stopped")
	return nil
}

// read combines file, arguments and flags.
func (v *serve) read(c *cobra.Command, args []string) (*zoocfg.Config, error) {
	entries, err := v.file()
	if err != nil {
		return nil, err
	}
	given, err := v.commandLine(c, args)
	if err != nil {
		return nil, err
	}
	entries = append(append(zoocfg.Environment(os.Getenv), entries...), given...)
	if v.config == "" && len(args) == 0 {
		// Without a file, use ZooKeeper's usual port.
		entries = append([]zoocfg.Entry{{Key: "clientPort", Value: "2181"}}, entries...)
	}
	return readEntries(entries)
}

// readFile reads the file, the environment and the settings of -D.
func (v *serve) readFile() (*zoocfg.Config, error) {
	entries, err := v.file()
	if err != nil {
		return nil, err
	}
	given, err := v.defined()
	if err != nil {
		return nil, err
	}
	return readEntries(append(append(zoocfg.Environment(os.Getenv), entries...), given...))
}

func readEntries(entries []zoocfg.Entry) (*zoocfg.Config, error) {
	config, err := zoocfg.Read(entries, osfs.New())
	if err != nil {
		return nil, cli.Usage(configHint, "%w", err)
	}
	return config, nil
}

// file returns the settings in the file, if there is one.
func (v *serve) file() ([]zoocfg.Entry, error) {
	if v.config == "" {
		return nil, nil
	}
	text, err := os.ReadFile(v.config)
	if err != nil {
		return nil, cli.Usage("--config names a file in the form of ZooKeeper's zoo.cfg", "read configuration: %w", err)
	}
	entries, err := zoocfg.Parse(v.config, text)
	if err != nil {
		return nil, cli.Usage(configHint, "%w", err)
	}
	return entries, nil
}

// unreadScripts returns remarks about the shell scripts beside the file in which Apache's
// scripts look for Java flags, unless such flags were given.
func (v *serve) unreadScripts(value func(string) string) (remarks []string) {
	if v.config == "" || value("SERVER_JVMFLAGS") != "" || value("JVMFLAGS") != "" {
		return nil
	}
	for _, name := range []string{"zookeeper-env.sh", "java.env"} {
		path := filepath.Join(filepath.Dir(v.config), name)
		if _, err := os.Stat(path); err == nil {
			remarks = append(remarks, path+": is a shell script and is not read: if it sets SERVER_JVMFLAGS or JVMFLAGS, "+
				"run it and export them, or give their -Dzookeeper... as -D")
		}
	}
	return remarks
}

const configHint = "docs/configuration.md lists every key with its form; `conclave dev` needs no configuration"

// commandLine converts arguments, flags and properties to settings, in this order: later
// ones win.
func (v *serve) commandLine(c *cobra.Command, args []string) ([]zoocfg.Entry, error) {
	var entries []zoocfg.Entry
	if len(args) > 0 {
		short, err := zoocfg.Arguments(args)
		if err != nil {
			return nil, cli.Usage("or name a file: conclave serve --config zoo.cfg", "%w", err)
		}
		entries = short
	}
	for _, s := range settings {
		if c.Flags().Changed(s.flag) {
			value, err := c.Flags().GetString(s.flag)
			if err != nil {
				return nil, err
			}
			entries = append(entries, zoocfg.Entry{Key: s.key, Value: value})
		}
	}
	defined, err := v.defined()
	return append(entries, defined...), err
}

// defined returns the settings of -D.
func (v *serve) defined() (entries []zoocfg.Entry, err error) {
	for _, text := range v.properties {
		entry, err := zoocfg.Property(text)
		if err != nil {
			return nil, cli.Usage("as in -D zookeeper.snapCount=50000", "%w", err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// logFlags say which parts of a server's log are written, and how.
type logFlags struct{ level, format string }

func (l *logFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&l.level, "log-level", "info", "lowest level that is logged: debug, info, warn or error")
	c.Flags().StringVar(&l.format, "log-format", "text", "text or json, one line for each message")
	_ = c.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// logger writes to the standard error what the flags ask for.
func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, cli.Usage("write --log-level debug, info, warn or error", "unknown log level %q", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, cli.Usage("write --log-format text or json", "unknown log format %q", l.format)
}
