package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/spf13/cobra"
)

// dev is the flags of `conclave dev`.
type dev struct {
	dir  string
	port int
}

func newDev() *cobra.Command {
	v := &dev{}
	c := &cobra.Command{
		Use:   "dev",
		Short: "Start a server to try things on, and say what to type next",
		Long: `Starts one server on this machine with everything at its default, reachable
from this machine only. Its data goes with it unless --dir says where to keep it.
Stop it with Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: v.run,
	}
	c.Flags().StringVar(&v.dir, "dir", "", "keep the data here (default: a temporary directory)")
	c.Flags().IntVar(&v.port, "port", 0, "client port (default 2181, or the next free one)")
	return c
}

func (v *dev) run(c *cobra.Command, _ []string) error {
	logger := newLogger(c.ErrOrStderr())
	listener, err := v.listen(c)
	if err != nil {
		return err
	}
	defer listener.Close()
	dir, remove, err := v.place()
	if err != nil {
		return err
	}
	defer remove()
	cfg := server.Default()
	cfg.FS, cfg.Logger, cfg.DataDir, cfg.Listener = osfs.New(), logger, dir, listener
	// A server to try things on answers every word, knows every znode, and
	// allows sessions, and so leases, from one second up.
	cfg.FourLetterWords, cfg.ExtendedTypes = []string{"*"}, true
	cfg.TickTime, cfg.SessionMin, cfg.SessionMax = devTick, time.Second, time.Minute
	cfg.Words = admin.Words{Version: version, Built: built()}
	s, err := server.New(cfg)
	if err != nil {
		return cli.Failed(err, startHint)
	}
	v.welcome(c, listener.Addr().(*net.TCPAddr).Port, dir)
	return serveUntilInterrupted(c.Context(), s, logger)
}

const (
	devTick       = 200 * time.Millisecond
	devPort       = 2181
	devPortsTried = 100
)

// listen opens the port that was asked for, or the first free one.
func (v *dev) listen(c *cobra.Command) (net.Listener, error) {
	first, last := devPort, devPort+devPortsTried-1
	if v.port != 0 {
		first, last = v.port, v.port
	}
	for port := first; ; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			if port != first {
				fmt.Fprintf(c.ErrOrStderr(), "port %d is taken, so this server is on port %d\n", first, port)
			}
			return l, nil
		}
		if port == last || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, cli.Failed(fmt.Errorf("open client port: %w", err), "choose another port with --port")
		}
	}
}

// place is the directory for the data, and what is to be done with it at the
// end.
func (v *dev) place() (dir string, remove func(), err error) {
	if v.dir != "" {
		dir, err = filepath.Abs(v.dir)
		return dir, func() {}, err
	}
	dir, err = os.MkdirTemp("", "conclave-dev-")
	if err != nil {
		return "", nil, cli.Failed(fmt.Errorf("make a directory for the data: %w", err), "name one with --dir")
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

const welcomeText = `Conclave serves ZooKeeper's clients on 127.0.0.1:%d, data in %s.
Type into another terminal:

%s  %s create /hello world
  %s get /hello
  %s watch -r /
  %s status
  %s run --election demo --store zk://127.0.0.1:%d -- sh -c 'echo leading with $CONCLAVE_TOKEN; sleep 30'

Ctrl-C ends the server.
`

// welcome says where the server is and what to type next.
func (v *dev) welcome(c *cobra.Command, port int, dir string) {
	if v.dir == "" {
		dir += " (removed at the end)"
	}
	export := ""
	if port != devPort {
		export = fmt.Sprintf("  export %s=zk://127.0.0.1:%d\n", cli.StoreVariable, port)
	}
	me := program()
	fmt.Fprintf(c.OutOrStdout(), welcomeText, port, dir, export, me, me, me, me, me, port)
}

// program is how the user calls this program.
func program() string {
	if strings.Contains(filepath.ToSlash(os.Args[0]), "/go-build") {
		return "go run ./cmd/conclave"
	}
	return os.Args[0]
}
