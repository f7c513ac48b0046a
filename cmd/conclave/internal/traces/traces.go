// Package traces sends spans to an OpenTelemetry receiver, by OTLP over HTTP in its JSON
// form.
//
// It sends the spans of a server to the receiver's /v1/traces. Add puts a span into a
// queue; one goroutine sends the queue's content once a second.
//
// What always holds:
//
//	traces-T1  Add waits for nothing. What does not fit in the queue is lost, and counted.
//	traces-T2  What a receiver does not accept is lost, counted, and logged once a
//	           minute. Nothing is sent twice.
//
// It does not decide what is traced.
package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/server"
)

const (
	queueMax = 8192 // spans that may wait
	batchMax = 512  // spans in one request
	sendTime = time.Second
	timeout  = 10 * time.Second
	// answerMax is how much of an answer is read.
	answerMax = 64 << 10
)

// Exporter sends spans. Its methods may be called by any goroutine.
type Exporter struct {
	url      string
	resource resource
	client   *http.Client
	clock    clock.Clock
	logger   *slog.Logger

	mu         sync.Mutex
	queue      []server.Span
	sent, lost atomic.Int64
	failures   lobby.Failures
}

// New returns an exporter to an endpoint that Endpoint has accepted, for a server of a version.
func New(endpoint, version, instance string, c clock.Clock, logger *slog.Logger) *Exporter {
	return &Exporter{
		url: endpoint, clock: c, logger: logger,
		resource: resource{Attributes: []attribute{
			textOf("service.name", "conclave"), textOf("service.version", version), textOf("service.instance.id", instance),
		}},
		client: &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Endpoint checks the URL of a receiver. If it has no path, OTLP's is added.
func Endpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" {
		return "", fmt.Errorf("%q is no URL such as http://localhost:4318", redact.URL(text))
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// Add queues a span (traces-T1).
func (e *Exporter) Add(s server.Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= queueMax {
		e.lost.Add(1)
		return
	}
	e.queue = append(e.queue, s)
}

// Report returns the totals.
func (e *Exporter) Report() server.TraceReport {
	return server.TraceReport{Sent: e.sent.Load(), Lost: e.lost.Load()}
}

// Run sends until ctx ends, and then what is left.
func (e *Exporter) Run(ctx context.Context) {
	for {
		timer := e.clock.Timer(e.clock.Now().Add(sendTime))
		select {
		case <-timer.C():
			e.send(ctx)
		case <-ctx.Done():
			timer.Stop()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
			defer cancel()
			e.send(last)
			return
		}
	}
}

// send sends the content of the queue.
func (e *Exporter) send(ctx context.Context) {
	e.mu.Lock()
	all := e.queue
	e.queue = nil
	e.mu.Unlock()
	for len(all) > 0 {
		n := min(len(all), batchMax)
		if err := e.post(ctx, all[:n]); err != nil {
			e.lost.Add(int64(n))
			if count, tell := e.failures.Note(e.clock.Now().Millis()); tell {
				e.logger.Warn("the receiver of traces takes no spans: they are lost", "endpoint", redact.URL(e.url), "error", err, "failures", count)
			}
		} else {
			e.sent.Add(int64(n))
		}
		all = all[n:]
	}
}

func (e *Exporter) post(ctx context.Context, some []server.Span) error {
	body, err := json.Marshal(e.message(some))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(r)
	if err != nil {
		if wrapped, is := err.(*url.Error); is {
			err = wrapped.Err // without the URL, which may contain a password
		}
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerMax))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return nil
}
