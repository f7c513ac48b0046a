package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Endpoint is the port that is scraped, at /metrics.
type Endpoint struct {
	listener net.Listener
	http     http.Server
	ended    chan struct{} // nil before Serve
}

// Bounds of the port: it is for some servers of Prometheus.
const (
	scrapesMax  = 4
	scrapeTime  = 10 * time.Second
	requestTime = 10 * time.Second
)

// Listen opens the port. Scrapes wait until Serve.
func Listen(address string) (*Endpoint, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return &Endpoint{listener: listener}, nil
}

// Serve answers scrapes with what c collects until Close; process adds the figures of the
// process and of the Go runtime. Errors are logged.
func (e *Endpoint) Serve(c *Collector, process bool, logger *slog.Logger) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if process {
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	log := slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: log, MaxRequestsInFlight: scrapesMax, Timeout: scrapeTime,
	}))
	e.ended = make(chan struct{})
	e.http = http.Server{
		Handler: routes, ErrorLog: log, ReadHeaderTimeout: requestTime, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	go func() {
		defer close(e.ended)
		if err := e.http.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("metrics are not served any more", "error", err)
		}
	}()
}

// Addr is where the port is.
func (e *Endpoint) Addr() net.Addr { return e.listener.Addr() }

// Close ends the endpoint. A scrape under way has a second to end.
func (e *Endpoint) Close() {
	if e.ended == nil {
		e.listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if e.http.Shutdown(ctx) != nil {
		e.http.Close()
	}
	<-e.ended
}
