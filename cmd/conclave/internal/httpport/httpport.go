// Package httpport is a port of the server for operators and their machines, over HTTP: the
// one that Prometheus scrapes, and the one of the admin server.
package httpport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Port is an open port. A nil Port is none: its methods do nothing.
type Port struct {
	what     string
	listener net.Listener
	http     http.Server
	ended    chan struct{} // nil before Serve
}

// headerTime bounds the reading of a request.
const headerTime = 10 * time.Second

// Listen opens the port; what names it in errors and in the log. Requests wait until Serve.
func Listen(what, host string, port int) (*Port, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &Port{what: what, listener: listener}, nil
}

// Serve answers requests until Close. A connection without one is closed after idle. Errors
// are logged.
func (p *Port) Serve(handler http.Handler, idle time.Duration, logger *slog.Logger) {
	p.ended = make(chan struct{})
	p.http = http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: headerTime, IdleTimeout: idle, MaxHeaderBytes: 64 << 10,
	}
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("a port is not served any more", "for", p.what, "error", err)
		}
	}()
}

// Addr is where the port is.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// Close ends the port. A request under way has a second to end.
func (p *Port) Close() {
	if p == nil {
		return
	}
	if p.ended == nil {
		p.listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.http.Shutdown(ctx) != nil {
		p.http.Close()
	}
	<-p.ended
}
