// Package httpport is a port of the server for operators and their tools, over HTTP: the
// port that Prometheus scrapes, and the admin server's.
//
// Its user provides a handler and the time after which an idle connection is closed. What
// always holds, even for strangers that reach the port:
//
//	httpport-H1  It has a bounded number of connections. One more takes the place of
//	             another, or is closed (package lobby).
//	httpport-H2  Each request is read and answered within a bounded time. No request has a
//	             body: after the answer to a request with a body, its connection is closed.
//	httpport-H3  A TLS handshake counts as a connection from its first byte, and its time
//	             counts towards the time of its first request. No handler sees a request
//	             before the handshake has succeeded.
//	httpport-H4  Foreign recognizes a request of another site's page.
//	httpport-H5  A port with tokens passes no request to its handler that shows none of them,
//	             except for the paths that are said to be open.
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
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/lobby"
)

// Port is an open port. Methods of a nil Port do nothing.
type Port struct {
	what     string
	listener net.Listener
	http     http.Server
	ended    chan struct{} // nil before Serve
	logger   *slog.Logger
	readTime time.Duration // the constant readTime, except in tests

	tls      *TLS         // nil: plain HTTP
	plain    atomic.Int64 // connections without TLS on a port for both
	closing  atomic.Bool
	failures lobby.Failures

	tokens  *Tokens  // nil: no request needs one
	open    []string // paths that need none
	refused lobby.Failures
}

// Bounds of each request. Handlers limit their own working time.
const (
	readTime   = 10 * time.Second
	answerTime = 30 * time.Second // from the end of the headers to the last byte of the answer
)

// Listen opens the port; what is its name in errors and in the log. Requests wait until
// Serve.
func Listen(what, host string, port int) (*Port, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &Port{what: what, listener: &crowded{Listener: listener}, readTime: readTime}, nil
}

// Serve answers requests until Close. A connection without a request is closed after idle.
// Errors are logged.
func (p *Port) Serve(handler http.Handler, idle time.Duration, logger *slog.Logger) {
	p.ended, p.logger = make(chan struct{}), logger
	listener := p.listener
	if p.tls != nil {
		listener = &shaking{p.tls.Source.Listener(listener, p.tls.PlainToo), p}
		if p.tls.Strict {
			handler = strictly(handler)
		}
	}
	if p.tokens != nil {
		handler = p.requiring(handler)
	}
	p.http = http.Server{
		Handler: Bodiless(handler), ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn), ConnContext: remember,
		ReadTimeout: p.readTime, WriteTimeout: answerTime, IdleTimeout: idle, MaxHeaderBytes: 64 << 10,
	}
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("a port is no longer served", "for", p.what, "error", err)
		}
	}()
}

// Bodiless answers without reading the body of a request, and closes its connection
// (httpport-H2).
func Bodiless(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			// Without this, package http would wait for the rest of the body before it
			// answers.
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			r.Body, r.ContentLength = http.NoBody, 0
		}
		handler.ServeHTTP(w, r)
	})
}

// crowded is a listener with a bounded number of connections (httpport-H1).
type crowded struct {
	net.Listener
	lobby lobby.Lobby
}

func (l *crowded) Accept() (net.Conn, error) {
	for {
		socket, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.lobby.Enter(socket) {
			return &member{socket, &l.lobby}, nil
		}
		socket.Close()
	}
}

// member is a connection that gives up its place in the lobby when it is closed.
type member struct {
	net.Conn
	lobby *lobby.Lobby
}

func (m *member) Close() error {
	m.lobby.Leave(m.Conn)
	return m.Conn.Close()
}

// CloseWrite closes the sending side.
func (m *member) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Addr returns the address of the port.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// Close closes the port. A request in progress has a second to finish.
func (p *Port) Close() {
	if p == nil {
		return
	}
	p.closing.Store(true)
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
