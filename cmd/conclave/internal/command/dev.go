package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/spf13/cobra"
)

// dev is the flags of `conclave dev`.
type dev struct {
	dir       string
	port      int
	servers   int
	observers int
	verbose   bool
	http      string
}

func newDev() *cobra.Command {
	v := &dev{}
	c := &cobra.Command{
		Use:   "dev",
		Short: "Start an ensemble to experiment with, and say what to type next",
		Long: `Starts an ensemble of three servers in one process, reachable from this machine
only, and says which one leads. Its data is removed at the end unless --dir says
where to keep it. While it runs, the subcommands end and start its servers and
cut the connections between them. Stop it with Ctrl-C.`,
		Example: `  conclave dev
  conclave dev kill 2       # in another terminal, as are the next ones
  conclave dev start 2
  conclave dev cut 1 3
  conclave dev heal
  conclave dev status`,
		Args: takes(0),
		RunE: v.run,
	}
	c.Flags().StringVar(&v.dir, "dir", "", "keep the data in DIR/1, DIR/2, ... (default: a temporary directory)")
	c.Flags().IntVar(&v.port, "port", 0, "client port of the first server (default 2181, or the next free one); the others use the next ones")
	c.Flags().IntVar(&v.servers, "servers", 3, "servers that vote; 1 is a standalone server")
	c.Flags().IntVar(&v.observers, "observers", 0, "servers that follow without a vote")
	c.Flags().StringVar(&v.http, "http", "", "serve the dashboard on this loopback address, such as 127.0.0.1:8080")
	c.Flags().BoolVarP(&v.verbose, "verbose", "v", false, "print what the servers log")
	addDevControls(c)
	return c
}

const (
	devTick       = 200 * time.Millisecond
	devSilence    = time.Second
	devPort       = 2181
	devPortsTried = 100
	devServersMax = 50
	devPatience   = 20 * time.Second // for the first leader
)

func (v *dev) run(c *cobra.Command, _ []string) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // as in serve
	if v.servers < 1 || v.observers < 0 || v.servers+v.observers > devServersMax {
		return cli.Usage(fmt.Sprintf("choose 1 to %d servers, including observers", devServersMax),
			"%d servers and %d observers", v.servers, v.observers)
	}
	dir, remove, err := v.place()
	if err != nil {
		return err
	}
	defer remove()
	ctx, stop := untilInterrupted(c.Context())
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	news := newDevNews(c.OutOrStdout())
	defer news.close()
	ensemble, err := inprocess.Start(inprocess.Options{
		Servers: v.servers, Observers: v.observers, Dir: dir, Listen: v.listener(c),
		FS:   func(int) vfs.FS { return osfs.New() },
		Base: devConfig(), Logger: v.logger(c.ErrOrStderr()),
		RoleChanged: news.roleChanged, Ended: news.ended,
	})
	if err != nil {
		return startFailed(err)
	}
	defer ensemble.Close()
	control, err := newDevControl(ensemble, news, dir)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "conclave dev kill, start, cut and heal cannot reach this process: %v\n", err)
	} else {
		defer control.close()
	}
	helpers.Go(func() { server.TightenHeap(ctx) })
	first, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	if err := ensemble.Await(first, func() bool { return serving(ensemble) }); err != nil && ctx.Err() == nil {
		return cli.Failed(fmt.Errorf("nobody leads after %v", devPatience), "start it with --verbose to see what the servers log")
	}
	url, endDashboard, err := v.dashboard(ctx, ensemble)
	if err != nil {
		return err
	}
	defer endDashboard()
	v.welcome(c.OutOrStdout(), ensemble, dir)
	if url != "" {
		fmt.Fprintf(c.OutOrStdout(), "The dashboard is at %s\n\n", url)
	}
	news.begin()
	<-ctx.Done()
	news.end()
	return nil
}

// startFailed keeps the hint of an error if it has one.
func startFailed(err error) error {
	var own *cli.Error
	if errors.As(err, &own) {
		return own
	}
	return cli.Failed(err, startHint(err))
}

// serving reports whether every running server serves clients.
func serving(e *inprocess.Ensemble) bool {
	for id := 1; id <= e.Size(); id++ {
		if s := e.Server(id); s != nil && !s.Serves() {
			return false
		}
	}
	return true
}

// devConfig returns the configuration of servers for experiments: they answer every
// four-letter word, support every kind of znode, and allow sessions, and therefore leases,
// of one second or more.
func devConfig() server.Config {
	cfg := server.Default()
	cfg.FourLetterWords, cfg.ExtendedTypes = []string{"*"}, true
	cfg.TickTime, cfg.SilenceTime, cfg.SessionMin, cfg.SessionMax = devTick, devSilence, time.Second, time.Minute
	cfg.Commands = admin.Commands{Version: version, Built: built()}
	return cfg
}

func (v *dev) logger(w io.Writer) func(id int) *slog.Logger {
	level := slog.LevelError
	if v.verbose {
		level = slog.LevelInfo
	}
	all := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	return func(id int) *slog.Logger { return all.With("server", id) }
}

// listener opens the requested port or the first free one, and for the other servers the
// next free ones.
func (v *dev) listener(c *cobra.Command) func(id int) (net.Listener, error) {
	next := devPort
	if v.port != 0 {
		next = v.port
	}
	return func(id int) (net.Listener, error) {
		wanted, last := next, next+devPortsTried-1
		if id == 1 && v.port != 0 {
			last = wanted
		}
		for port := wanted; ; port++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				if id == 1 && port != wanted {
					fmt.Fprintf(c.ErrOrStderr(), "port %d is taken, so the first server is on port %d\n", wanted, port)
				}
				next = port + 1
				return l, nil
			}
			if port == last || !errors.Is(err, syscall.EADDRINUSE) {
				return nil, cli.Failed(fmt.Errorf("open client port: %w", err), "choose another port with --port")
			}
		}
	}
}

// place returns the directory for the data, and a function that removes it at the end if
// necessary.
func (v *dev) place() (dir string, remove func(), err error) {
	if v.dir != "" {
		if dir, err = filepath.Abs(v.dir); err == nil {
			err = v.claim(dir)
		}
		return dir, func() {}, err
	}
	removeLeft()
	dir, err = os.MkdirTemp("", devPrefix)
	if err != nil {
		return "", nil, cli.Failed(fmt.Errorf("make a directory for the data: %w", err), "name one with --dir")
	}
	free := func() {}
	if lock, err := osfs.New().Lock(dir); err == nil {
		free = func() { _ = lock.Close() }
	}
	return dir, func() { os.RemoveAll(dir); free() }, nil
}

// devShape is the shape of an ensemble, stored in its directory. It must not change
// unnoticed, because servers without data would outvote those that have it.
type devShape struct {
	Servers   int `json:"servers"`
	Observers int `json:"observers"`
}

// claim takes a directory for this ensemble, or checks that it already belongs to it.
func (v *dev) claim(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "version-2")); err == nil {
		return cli.Failed(fmt.Errorf("%s holds the data of one server, but dev keeps that of several", dir),
			"serve it with `conclave serve --data-dir "+dir+"`, or choose another --dir")
	}
	name, mine := filepath.Join(dir, "dev.json"), devShape{v.servers, v.observers}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		text, _ = json.Marshal(mine)
		if err = os.MkdirAll(dir, 0o755); err == nil {
			err = os.WriteFile(name, append(text, '\n'), 0o644)
		}
	}
	if err != nil {
		return cli.Failed(fmt.Errorf("keep the data: %w", err), "name a writable directory with --dir")
	}
	var found devShape
	if err := json.Unmarshal(text, &found); err != nil {
		return cli.Failed(fmt.Errorf("read %s: %w", name, err), "choose another directory with --dir")
	}
	if found != mine {
		return cli.Usage(fmt.Sprintf("start it with --servers %d --observers %d, or choose another --dir", found.Servers, found.Observers),
			"%s holds the data of %d servers and %d observers", dir, found.Servers, found.Observers)
	}
	return nil
}

const welcomeText = `Conclave serves ZooKeeper's clients, data in %s:

%s
In another terminal, try:

  export %s=zk://%s
  %[5]s create /hello world
  %[5]s status
%[6]s  %[5]s get /hello
  %[5]s watch -r /
  %[5]s run demo -- sh -c 'echo leading with $CONCLAVE_TOKEN; sleep 30'

Ctrl-C ends all.

`

// welcome prints where the servers are and what to type next.
func (v *dev) welcome(w io.Writer, e *inprocess.Ensemble, dir string) {
	if v.dir == "" {
		dir += " (removed at the end)"
	}
	list, me, more := "", program(), ""
	for id, addr := range e.Addrs() {
		list += fmt.Sprintf("  server %d  %s\n", id+1, addr)
	}
	if v.servers > 1 {
		leader := max(1, e.Leader())
		more = fmt.Sprintf("  %s dev kill %d     # the leader\n  %[1]s dev start %[2]d\n", me, leader)
	}
	fmt.Fprintf(w, welcomeText, dir, list, cli.StoreVariable, strings.Join(e.Addrs(), ","), me, more)
}

// program returns how the user calls this program.
func program() string {
	if strings.Contains(filepath.ToSlash(os.Args[0]), "/go-build") {
		return "go run ./cmd/conclave"
	}
	return os.Args[0]
}
