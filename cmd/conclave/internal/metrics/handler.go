package metrics

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the port: it is meant for a few Prometheus servers.
const (
	scrapesMax = 4
	scrapeTime = 10 * time.Second
	IdleTime   = 3 * time.Minute // of a connection without a scrape
)

// Handler answers scrapes of /metrics with the metrics of c; process adds those of the
// process and of the Go runtime. Errors are logged.
func Handler(c *Collector, process bool, logger *slog.Logger) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if process {
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn), MaxRequestsInFlight: scrapesMax, Timeout: scrapeTime,
	}))
	return routes
}
