package command

import (
	"log/slog"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/adminport"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"github.com/conclave-project/conclave/cmd/conclave/internal/metrics"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/server"
)

// operatorPorts are the ports that the configuration asks for beside those of clients and
// servers; nil where it does not.
type operatorPorts struct {
	config         *zoocfg.Config
	metrics, admin *httpport.Port
}

// openOperatorPorts opens them.
func openOperatorPorts(config *zoocfg.Config) (p operatorPorts, err error) {
	p.config = config
	if m := config.Metrics; m.Serves {
		if p.metrics, err = httpport.Listen("metrics", m.Host, m.Port); err != nil {
			return p, cli.Failed(err, "metricsProvider.httpHost and metricsProvider.httpPort name another address")
		}
	}
	if a := config.Admin; a.Serves {
		if p.admin, err = httpport.Listen("admin", a.Host, a.Port); err != nil {
			p.close()
			return p, cli.Failed(err, "admin.serverAddress and admin.serverPort name another address, admin.enableServer=false none")
		}
	}
	return p, nil
}

// serve tells of a server there.
func (p operatorPorts) serve(s *server.Server, commands admin.Commands, logger *slog.Logger) {
	if p.metrics != nil {
		p.metrics.Serve(metrics.Handler(metrics.New(s, version), p.config.Metrics.Process, logger), metrics.IdleTime, logger)
		logger.Info("metrics are served", "address", p.metrics.Addr().String(), "path", "/metrics")
	}
	if a := p.config.Admin; p.admin != nil {
		p.admin.Serve(adminport.Handler(s, commands, a.Path), time.Duration(a.IdleMs)*time.Millisecond, logger)
		logger.Info("the admin port is served", "address", p.admin.Addr().String(), "path", a.Path)
	}
}

func (p operatorPorts) close() {
	p.metrics.Close()
	p.admin.Close()
}
