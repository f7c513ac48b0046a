package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/dashboard"
	"github.com/conclave-project/conclave/cmd/conclave/internal/labsite"
	"github.com/spf13/cobra"
)

// dashFlags is the flags of `conclave dashboard`.
type dashFlags struct {
	connection
	inspection
	listen  string
	changes bool
}

func newDashboard() *cobra.Command {
	v := &dashFlags{}
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show an ensemble in a browser: servers, elections, tree, sessions",
		Long: `Serves a page that shows an ensemble, live: its servers, their roles, lag and
latencies, the elections and who led them, the tree, sessions and watches. Like top, it works
with any ZooKeeper, over TLS and SASL too, as far as the servers report: srvr, mntr, conf,
cons, dump and wchp, by four-letter word or on the admin port. The same is available as JSON
below /api/v1, which /api/v1/openapi.json describes.

The page has the rights of this command, which proves its identity to the servers with
--auth and --jaas. It is served on the loopback address only. With --changes, the page
can ask leaders to resign or hand over, and create, change and delete znodes.

` + "`conclave serve --http 127.0.0.1:8080` and `conclave dev --http 127.0.0.1:8080`" + ` serve the
same page, and it also shows the transactions of their log.`,
		Example: `  conclave dashboard --server zk1:2181,zk2:2181,zk3:2181
  conclave dashboard --server zk+tls://zk1:2281 --tls-ca ca.pem --listen 127.0.0.1:8090 --changes`,
		Args: takes(0),
		RunE: v.run,
	}
	v.connection.add(c)
	v.inspection.add(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.Flags().StringVar(&v.listen, "listen", "127.0.0.1:0", "loopback address and port of the page; port 0 means a free one")
	c.Flags().BoolVar(&v.changes, "changes", false, "allow the page to change elections and znodes")
	return c
}

func (v *dashFlags) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	source, err := v.source()
	if err != nil {
		return err
	}
	l, err := dashboard.Listen(v.listen)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	d := dashboard.New(source, dashboard.Options{Changes: v.changes, Version: version, Logger: logger, Lab: laboratory()})
	d.Serve(l)
	defer source.close()
	defer d.Close()
	url := "http://" + l.Addr().String() + "/"
	if err := p.Line(map[string]string{"url": url}, "the dashboard is at "+url); err != nil {
		return err
	}
	ctx, stop := untilInterrupted(c.Context())
	defer stop()
	<-ctx.Done()
	return nil
}

// source creates the source of the page from the flags.
func (v *dashFlags) source() (*dashSource, error) {
	servers, options, err := v.connection.options()
	if err != nil {
		return nil, err
	}
	top := topping{authFlags: v.authFlags, elections: dashElections, clients: dashClients, saslFlag: v.saslFlag}
	top.tlsFlags, top.servers, top.timeout, top.inspection = v.tlsFlags, v.servers, v.timeout, v.inspection
	o, err := top.overseer()
	if err != nil {
		return nil, err
	}
	return newDashSource(o, servers.Servers, options), nil
}

// laboratory returns the laboratory that is embedded in this program; nil if it has to be
// built first, which `conclave lab` does.
func laboratory() http.Handler {
	machines, ok, err := labsite.Carried()
	if !ok || err != nil {
		return nil
	}
	handler, err := labsite.Handler(machines)
	if err != nil {
		return nil
	}
	return handler
}

// serveDashboard serves the dashboard of a server in this process; an empty address means
// none. It returns the dashboard's URL, and a function that ends it.
func serveDashboard(ctx context.Context, address string, source *dashSource, changes bool, logger *slog.Logger) (url string, end func(), err error) {
	if address == "" {
		return "", func() {}, nil
	}
	l, err := dashboard.Listen(address)
	if err != nil {
		return "", nil, err
	}
	d := dashboard.New(source, dashboard.Options{Changes: changes, Log: source.log != nil, Version: version, Logger: logger, Lab: laboratory()})
	d.Serve(l)
	return "http://" + l.Addr().String() + "/", func() { d.Close(); source.close() }, nil
}

// Limits of what the page shows.
const (
	dashElections = 200
	dashClients   = 200
	dashPaths     = 50
	dashWatches   = 1000
	dashTimeout   = 5 * time.Second // for each answer of a server
)

var _ dashboard.Source = (*dashSource)(nil)

var errNoSession = errors.New("no session with a server")

func noLog() error {
	return cli.NotFound(fmt.Errorf("there is no log to read here"), "the dashboards of `conclave serve` and `conclave dev` have one")
}
