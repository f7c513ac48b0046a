package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/conclave-project/conclave/internal/bubble"
)

// overLink is an API server as one client reaches it, without a socket. Requests, answers and the
// events of watches may be late or lost.
type overLink struct {
	api      *apiServer
	streams  *streams
	link     *bubble.Link // nil: nothing is lost
	answered func()       // called for each answer
}

// streams are the open watches.
type streams struct {
	mu  sync.Mutex
	all map[*io.PipeWriter]struct{}
}

func newStreams() *streams { return &streams{all: make(map[*io.PipeWriter]struct{})} }

// end breaks all watches.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.all {
		go w.CloseWithError(errStream)
	}
}

func (s *streams) note(w *io.PipeWriter, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.all[w] = struct{}{}
	} else {
		delete(s.all, w)
	}
}

var errStream = errors.New("the connection was reset")

// RoundTrip implements http.RoundTripper.
func (l *overLink) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	watches := r.URL.Query().Get("watch") != ""
	answer := httptest.NewRecorder()
	there := context.WithoutCancel(r.Context()) // a request arrives even if nobody waits for it
	ask := func() {
		request := r.Clone(there)
		request.Body = io.NopCloser(bytes.NewReader(body))
		l.api.ServeHTTP(answer, request)
	}
	if watches {
		ask = func() {}
	}
	if err := l.pass(r.Context(), ask); err != nil {
		return nil, err
	}
	if watches {
		return l.watch(r), nil
	}
	if l.answered != nil {
		l.answered()
	}
	response := answer.Result()
	response.Request = r
	return response, nil
}

func (l *overLink) pass(ctx context.Context, call func()) error {
	if l.link == nil {
		call()
		return ctx.Err()
	}
	return l.link.Pass(ctx, call)
}

// watch answers with a stream that ends with its request, or when its reader closes it.
func (l *overLink) watch(r *http.Request) *http.Response {
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	l.streams.note(writer, true)
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) })
	events := make(chan []byte, 1000)
	go func() {
		l.api.ServeHTTP(&eventWriter{events, make(http.Header)}, r.Clone(ctx))
		close(events)
	}()
	go func() {
		defer l.streams.note(writer, false)
		defer stop()
		defer cancel()
		l.bring(ctx, events, writer)
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: &stream{reader, cancel}}
}

type stream struct {
	*io.PipeReader
	cancel func()
}

func (s *stream) Close() error {
	s.cancel()
	return s.PipeReader.Close()
}

// bring passes events on, one after the other. A lost event ends the stream, or makes it silent
// for as long as its reader waits.
func (l *overLink) bring(ctx context.Context, events <-chan []byte, to *io.PipeWriter) {
	for text := range events {
		err := l.pass(ctx, func() {})
		if err == nil {
			_, err = to.Write(text)
		}
		if err != nil {
			_ = to.CloseWithError(errStream)
			return
		}
	}
	_ = to.Close()
}

// eventWriter takes what the server writes, so that the server waits for nobody.
type eventWriter struct {
	events chan<- []byte
	header http.Header
}

func (w *eventWriter) Header() http.Header { return w.header }
func (w *eventWriter) WriteHeader(int)     {}
func (w *eventWriter) Flush()              {}

func (w *eventWriter) Write(text []byte) (int, error) {
	w.events <- bytes.Clone(text)
	return len(text), nil
}
