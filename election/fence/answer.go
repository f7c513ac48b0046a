package fence

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// writesMax is how long a dismissed request may still write its answer: its client may be
// alive.
const writesMax = time.Second

// answer is the http.ResponseWriter of one request. When the fence dismisses the request,
// answer ends the server's reads from the client and its writes to it; the end of the
// context does neither.
//
// An HTTP/1 connection to which this was done cannot serve another request: it keeps the
// deadlines, and after a failed read the context of each further request would end at once.
type answer struct {
	http.ResponseWriter
	lasts bool // an HTTP/1 connection that would serve further requests
	ctx   context.Context

	mu     sync.Mutex
	begun  bool // the header is sent or about to be
	broken bool // the connection must not serve another request
	said   bool // the header tells the client so
}

// writer returns the writer for the handler. HTTP/2 has deadlines for each request, so it
// needs no wrapper.
func (a *answer) writer() http.ResponseWriter {
	if a.lasts {
		return a
	}
	return a.ResponseWriter
}

// dismissed reports whether a newer token, or Close, has ended the request.
func (a *answer) dismissed() bool {
	cause := context.Cause(a.ctx)
	return errors.Is(cause, ErrStale) || errors.Is(cause, errClosed)
}

// dismissing ends reads and writes when the fence dismisses the request by ending ctx. The
// returned function must be called at the end of the request; it waits until a dismissal in
// progress is done.
func (a *answer) dismissing(ctx context.Context) (end func()) {
	a.ctx = ctx
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		if !a.dismissed() {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		connection := http.NewResponseController(a.ResponseWriter)
		errRead := connection.SetReadDeadline(time.Unix(0, 0))
		errWrite := connection.SetWriteDeadline(time.Now().Add(writesMax))
		a.broken = a.lasts && (errRead == nil || errWrite == nil)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// begin is called before a header is sent. It asks dismissed, because the handler may see
// the end of its context before the deadlines are set.
func (a *answer) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun && a.lasts && a.dismissed() {
		a.Header().Set("Connection", "close")
		a.said = true
	}
	a.begun = true
}

// finish closes the connection if it must not serve another request and the client has not
// been told so. What was written so far is sent if possible.
func (a *answer) finish() {
	a.begin()
	if a.broken && !a.said {
		_ = http.NewResponseController(a.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
}

// WriteHeader sends a header. A status below 200 is followed by another header.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(data []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(data)
}

// ReadFrom lets the server use its own way to copy a file.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.begin()
	return io.Copy(a.ResponseWriter, r)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
