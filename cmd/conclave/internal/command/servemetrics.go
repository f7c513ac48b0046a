package command

import (
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/metrics"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/server"
)

// metricsPort is the port for Prometheus, if there is one.
type metricsPort struct {
	endpoint *metrics.Endpoint // nil: there is none
	process  bool
}

// openMetrics opens the port that the configuration asks for.
func openMetrics(m *zoocfg.Metrics) (metricsPort, error) {
	if !m.Serves {
		return metricsPort{}, nil
	}
	endpoint, err := metrics.Listen(net.JoinHostPort(strings.Trim(m.Host, "[]"), strconv.Itoa(m.Port)))
	if err != nil {
		return metricsPort{}, cli.Failed(err, "metricsProvider.httpHost and metricsProvider.httpPort name another address")
	}
	return metricsPort{endpoint, m.Process}, nil
}

// serve tells of a server there.
func (p metricsPort) serve(s *server.Server, logger *slog.Logger) {
	if p.endpoint != nil {
		p.endpoint.Serve(metrics.New(s, version), p.process, logger)
		logger.Info("metrics are served", "address", p.endpoint.Addr().String(), "path", "/metrics")
	}
}

func (p metricsPort) close() {
	if p.endpoint != nil {
		p.endpoint.Close()
	}
}
