// Package metrics counts what ZooKeeper clients do, for Prometheus.
//
// From the events of any number of clients (Options.OnEvent) it makes metrics that add up all
// clients of one Metrics:
//
//	conclave_client_connected             clients that are attached to a server now
//	conclave_client_states_total          changes of a session's state, by state
//	conclave_client_connects_total        attempts to reach a server, by server and
//	                                      result (ok, failed)
//	conclave_client_connect_seconds       histogram: how long those took that succeeded
//	conclave_client_requests_total        requests that have ended, by operation and
//	                                      result (below)
//	conclave_client_request_seconds       histogram, by operation: from the call to
//	                                      the result, waits for a server among it
//	conclave_client_retries_total         requests that were sent again, by operation
//	conclave_client_request_bytes_total   of requests' frames, by operation
//	conclave_client_reply_bytes_total     of replies' frames, by operation
//	conclave_client_missed_events_total   events that a slow OnEvent has missed
//
// A result is ok, the code of the server or the library as text ("no such znode"), context (the
// request's context has ended), or other.
//
//	counted := metrics.New()
//	prometheus.MustRegister(counted)
//	c, err := client.Dial(ctx, servers, client.Options{OnEvent: counted.OnEvent(nil)})
package metrics

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Metrics is a prometheus.Collector. It may be used by several goroutines and
// registered with several registries.
type Metrics struct {
	connected                           prometheus.Gauge
	missed                              prometheus.Counter
	states, connects, requests, retries *prometheus.CounterVec
	requestBytes, replyBytes            *prometheus.CounterVec
	connectSeconds                      prometheus.Histogram
	requestSeconds                      *prometheus.HistogramVec
}

// New returns metrics, to which all functions made by OnEvent add.
func New() *Metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "conclave", Subsystem: "client", Name: name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	seconds := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "conclave", Subsystem: "client", Name: name, Help: help, Buckets: buckets}
	}
	return &Metrics{
		connected:      prometheus.NewGauge(prometheus.GaugeOpts(opts("connected", "Clients that are attached to a server."))),
		missed:         prometheus.NewCounter(prometheus.CounterOpts(opts("missed_events_total", "Events that a slow OnEvent has missed."))),
		states:         counter("states_total", "Changes of a session's state.", "state"),
		connects:       counter("connects_total", "Attempts to reach a server.", "server", "result"),
		connectSeconds: prometheus.NewHistogram(seconds("connect_seconds", "Time that successful attempts to reach a server took.")),
		requests:       counter("requests_total", "Requests that have ended.", "operation", "result"),
		requestSeconds: prometheus.NewHistogramVec(seconds("request_seconds", "Time from the call of a request to its result."), []string{"operation"}),
		retries:        counter("retries_total", "Requests that were sent again after a lost connection.", "operation"),
		requestBytes:   counter("request_bytes_total", "Bytes of requests.", "operation"),
		replyBytes:     counter("reply_bytes_total", "Bytes of replies.", "operation"),
	}
}

// buckets fit replies of a server nearby to requests that wait for a new leader.
var buckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// OnEvent returns a function for Options.OnEvent of one client. It counts every event and then
// calls next, if that is not nil. Each client needs one of its own.
func (m *Metrics) OnEvent(next func(client.Event)) func(client.Event) {
	one := &session{metrics: m}
	return func(e client.Event) {
		m.missed.Add(float64(e.Missed))
		switch e.Kind {
		case client.EventState:
			one.enter(e.State)
		case client.EventConnect:
			m.countConnect(e)
		case client.EventRequest:
			m.countRequest(e)
		}
		if next != nil {
			next(e)
		}
	}
}

// session is a client with the flag whether it counts as connected.
type session struct {
	metrics  *Metrics
	mu       sync.Mutex
	attached bool
}

func (s *session) enter(state client.State) {
	s.metrics.states.WithLabelValues(state.String()).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	attached := state == client.Connected || state == client.ReadOnly
	switch {
	case attached && !s.attached:
		s.metrics.connected.Inc()
	case !attached && s.attached:
		s.metrics.connected.Dec()
	}
	s.attached = attached
}

func (m *Metrics) countConnect(e client.Event) {
	if e.Err != nil {
		m.connects.WithLabelValues(e.Server, "failed").Inc()
		return
	}
	m.connects.WithLabelValues(e.Server, "ok").Inc()
	m.connectSeconds.Observe(e.Duration.Seconds())
}

func (m *Metrics) countRequest(e client.Event) {
	operation := e.Op.String()
	m.requests.WithLabelValues(operation, result(e.Err)).Inc()
	m.requestSeconds.WithLabelValues(operation).Observe(e.Duration.Seconds())
	m.retries.WithLabelValues(operation).Add(float64(max(e.Tries-1, 0)))
	m.requestBytes.WithLabelValues(operation).Add(float64(e.RequestBytes * e.Tries))
	m.replyBytes.WithLabelValues(operation).Add(float64(e.ReplyBytes))
}

// result returns the label for the end of a request. It looks for a code first, because the
// connection itself may have been ended by a context.
func result(err error) string {
	var code zk.Code
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &code):
		return code.Error()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "context"
	}
	return "other"
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.connected, m.missed, m.states, m.connects, m.connectSeconds, m.requests,
		m.requestSeconds, m.retries, m.requestBytes, m.replyBytes}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
}
