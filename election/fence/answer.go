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

// writesMax is how long a request that is dismissed may write its answer: the
// client may live.
const writesMax = time.Second

// answer is that of one request. It ends what the server reads from and writes to a
// client when the fence dismisses it, which the end of the context does not.
//
// An HTTP/1 connection to which that was done serves no other request: the deadlines
// stay with it, and a read that has failed ends the contexts of all that would come.
type answer struct {
	http.ResponseWriter
	lasts bool // an HTTP/1 connection would serve further requests
	ctx   context.Context

	mu     sync.Mutex
	begun  bool // its header is on its way
	broken bool // the connection is to serve no other request
	said   bool // the header says so
}

// writer is what the handler writes to. HTTP/2 has deadlines for each request.
func (a *answer) writer() http.ResponseWriter {
	if a.lasts {
		return a
	}
	return a.ResponseWriter
}

// dismissed reports whether a newer token has come, or Close.
func (a *answer) dismissed() bool {
	cause := context.Cause(a.ctx)
	return errors.Is(cause, ErrStale) || errors.Is(cause, errClosed)
}

// dismissing ends reads and writes when the fence dismisses the request, which ends ctx.
// What it returns is called at the end of the request, and waits until that is done.
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

// begin is called before a header is sent. The handler may see the end of its context
// before the connection has its deadlines.
func (a *answer) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun && a.lasts && a.dismissed() {
		a.Header().Set("Connection", "close")
		a.said = true
	}
	a.begun = true
}

// finish closes the connection if it must serve no other request and the client has
// not been told so. What was written is sent, as far as that goes.
func (a *answer) finish() {
	a.begin()
	if a.broken && !a.said {
		_ = http.NewResponseController(a.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
}

// WriteHeader sends a header. One below 200 is not the last.
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

// ReadFrom lets the server copy a file by itself.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.begin()
	return io.Copy(a.ResponseWriter, r)
}

// Flush is what http.Flusher has.
func (a *answer) Flush() {
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack is what http.Hijacker has.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
