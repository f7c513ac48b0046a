package httpport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
)

// TLS is the TLS configuration of a port.
type TLS struct {
	Source   *secure.Source
	PlainToo bool // a connection that does not begin like TLS is plain HTTP; otherwise it is refused
	// Strict tells browsers, over TLS only, to use TLS for this host for a day, as Apache's
	// admin server does. Browsers apply this to all ports of the host.
	Strict bool
}

const strict = "max-age=86400; includeSubDomains"

// Secure makes the port speak TLS. It is called before Serve.
func (p *Port) Secure(t TLS) { p.tls = &t }

// Speaks returns the protocols that the port speaks, for the log.
func (p *Port) Speaks() string {
	switch {
	case p.tls == nil:
		return "plain"
	case p.tls.PlainToo:
		return "plain and TLS"
	}
	return "TLS"
}

// Plain returns how many connections without TLS a port for both has accepted.
func (p *Port) Plain() int64 {
	if p == nil {
		return 0
	}
	return p.plain.Load()
}

// shaking is a listener whose connections do the TLS handshake in their first Read.
type shaking struct {
	net.Listener // of *secure.Conn
	port         *Port
}

// Accept does not wait for a handshake. From here on, the connection has the time of one
// request, which must include the handshake (httpport-H3).
func (l *shaking) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(l.port.readTime)) // if the connection was closed meanwhile, nothing is read from it
	return &guarded{Conn: c.(*secure.Conn), port: l.port}, nil
}

// guarded is a connection of a port that speaks TLS.
type guarded struct {
	*secure.Conn
	port *Port
	once sync.Once
}

// Read does the handshake first, and reports its result.
func (g *guarded) Read(b []byte) (int, error) {
	g.once.Do(func() { g.port.shaken(g.Conn) })
	return g.Conn.Read(b)
}

// Close also sends a TLS close message, unless the port is closing: clients that do not
// read would delay that.
func (g *guarded) Close() error {
	if g.port.closing.Load() {
		return g.Conn.Close()
	}
	return g.End()
}

// shaken counts a plain connection, and logs a handshake that has failed.
func (p *Port) shaken(c *secure.Conn) {
	_, err := c.Prove()
	switch {
	case err == nil && !c.Secure():
		p.plain.Add(1)
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed): // the client has sent nothing, or the port is closing
	case errors.Is(err, secure.ErrPlain):
		p.failed(c, err)
		refusePlain(c.NetConn())
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.failed(c, errSlow)
	default:
		p.failed(c, err)
	}
}

var errSlow = errors.New("no handshake within the time for one")

// failed logs a failed handshake, at most once a minute.
func (p *Port) failed(c *secure.Conn, err error) {
	if count, tell := p.failures.Note(time.Since(began).Milliseconds()); tell {
		p.logger.Warn("a handshake failed", "for", p.what, "client", c.RemoteAddr(), "error", err, "failed", count)
	}
}

// began is when this process started, or rather loaded this package.
var began = time.Now()

const (
	plainAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
		"This port speaks only TLS: write https://\n"
	restTime = 500 * time.Millisecond // time for the rest of a refused request
	restMax  = 64 << 10
)

// refusePlain answers a request without TLS. It reads the rest of the request for a moment,
// because otherwise the answer would be lost when the connection is closed.
func refusePlain(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(restTime))
	if _, err := io.WriteString(c, plainAnswer); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, c, restMax)
}

// connection is the context key for a request's connection, on a port that speaks TLS.
type connection struct{}

func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c)
}

// strictly wraps a handler: answers over TLS tell the browser to stay with TLS.
func strictly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connection{}).(*guarded); ok && c.Secure() {
			w.Header().Set("Strict-Transport-Security", strict)
		}
		handler.ServeHTTP(w, r)
	})
}
