package command

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/adminport"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"github.com/conclave-project/conclave/cmd/conclave/internal/metrics"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/server"
)

// operatorPorts are the configured ports other than those for clients and servers; nil if
// not configured.
type operatorPorts struct {
	config                  *zoocfg.Config
	metrics, scrapes, admin *httpport.Port // scrapes is for metrics over TLS on a port of its own
}

// operatorTokens are the tokens of these ports; nil for a port that needs none.
type operatorTokens struct{ admin, metrics *httpport.Tokens }

// readTokens reads the files that the configuration names.
func readTokens(config *zoocfg.Config) (t operatorTokens, err error) {
	read := func(key, path string, serves bool) (*httpport.Tokens, error) {
		if path == "" || !serves {
			return nil, nil
		}
		tokens, err := httpport.ReadTokens(path)
		if err != nil {
			return nil, cli.Usage(configHint, "%s: %w", key, err)
		}
		return tokens, nil
	}
	if t.admin, err = read("conclave.adminTokenFile", config.Admin.TokenFile, config.Admin.Serves); err == nil {
		t.metrics, err = read("conclave.metricsTokenFile", config.Metrics.TokenFile, config.Metrics.Serves)
	}
	return t, err
}

// openOperatorPorts opens these ports.
func openOperatorPorts(config *zoocfg.Config, tls *securePorts, tokens operatorTokens) (p operatorPorts, err error) {
	p.config = config
	open := func(port **httpport.Port, what, host string, number int, hint string) bool {
		if *port, err = httpport.Listen(what, host, number); err != nil {
			p.close()
			err = cli.Failed(err, hint)
		}
		return err == nil
	}
	if m := &config.Metrics; m.Serves {
		const hint = "metricsProvider.httpHost, metricsProvider.httpPort and metricsProvider.httpsPort name another address"
		if m.Port != zoocfg.NoPort && !open(&p.metrics, "metrics", m.Host, m.Port, hint) {
			return p, err
		}
		switch {
		case m.BothOnOne():
			p.metrics.Secure(httpport.TLS{Source: tls.metrics, PlainToo: true, Strict: true})
		case m.TLSPort != zoocfg.NoPort:
			if !open(&p.scrapes, "metrics", m.Host, m.TLSPort, hint) {
				return p, err
			}
			p.scrapes.Secure(httpport.TLS{Source: tls.metrics})
		}
		for _, port := range []*httpport.Port{p.metrics, p.scrapes} {
			if port != nil {
				port.Require(tokens.metrics)
			}
		}
	}
	if a := &config.Admin; a.Serves {
		if !open(&p.admin, "admin", a.Host, a.Port, "admin.serverAddress and admin.serverPort name another address, admin.enableServer=false none") {
			return p, err
		}
		if a.TLS.Serves {
			p.admin.Secure(httpport.TLS{Source: tls.admin, PlainToo: a.TLS.PlainToo, Strict: true})
		}
		p.admin.Require(tokens.admin, adminport.HealthPaths()...)
	}
	return p, nil
}

// serve shows a server on these ports.
func (p operatorPorts) serve(s *server.Server, commands admin.Commands, logger *slog.Logger) {
	var limited atomic.Int64
	if p.metrics != nil || p.scrapes != nil {
		collector := metrics.New(s, version)
		collector.SnapshotsLimited = limited.Load
		collector.PlainAdmin = func() int64 { return p.metrics.Plain() + p.admin.Plain() }
		handler := metrics.Handler(collector, p.config.Metrics.Process, logger)
		for _, port := range []*httpport.Port{p.metrics, p.scrapes} {
			if port != nil {
				port.Serve(handler, metrics.IdleTime, logger)
				logger.Info("metrics are served", "address", port.Addr().String(), "path", "/metrics", "speaks", port.Speaks())
			}
		}
	}
	if a := p.config.Admin; p.admin != nil {
		copies := adminport.Copies{Enabled: a.Snapshots, Every: time.Duration(a.SnapshotMs) * time.Millisecond, Limited: func() { limited.Add(1) }}
		p.admin.Serve(adminport.Handler(s, commands, a.Path, copies), time.Duration(a.IdleMs)*time.Millisecond, logger)
		logger.Info("the admin port is served", "address", p.admin.Addr().String(), "path", a.Path, "speaks", p.admin.Speaks())
	}
}

func (p operatorPorts) close() {
	p.metrics.Close()
	p.scrapes.Close()
	p.admin.Close()
}
