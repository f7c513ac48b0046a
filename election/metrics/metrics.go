// Package metrics counts what electors do, for Prometheus.
//
// From the events of any number of electors (Options.OnEvent) it makes metrics with the label
// "election":
//
//	conclave_election_leading                  1 while this process leads, else 0
//	conclave_election_token                    fencing token of the present or last leadership
//	conclave_election_leading_seconds_total    time for which this process has led
//	conclave_election_campaigns_total          attempts to be elected
//	conclave_election_elected_total            leaderships that have begun
//	conclave_election_changes_total            leaderships that have ended, by reason
//	conclave_election_renewals_total           renewals that the store has granted
//	conclave_election_renewal_remaining_seconds
//	                                           histogram: time that was left to the
//	                                           deadline when a renewal was granted
//	                                           or failed
//	conclave_election_failures_total           what failed, by operation: campaign,
//	                                           renew, release, nominate, health
//	conclave_election_stuck_total              functions that ran on after their time
//
// When a leadership is in danger, renewal_remaining_seconds comes close to zero before
// changes_total grows. A token above 2^53 is rounded.
package metrics

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-project/conclave/election"
)

// Metrics is a prometheus.Collector. It may be used by several goroutines and
// registered with several registries.
type Metrics struct {
	leading, token                                          *prometheus.GaugeVec
	campaigns, elected, changes, renewals, failures, stucks *prometheus.CounterVec
	remaining                                               *prometheus.HistogramVec
	seconds                                                 *prometheus.Desc

	now func() time.Time

	mu    sync.Mutex
	terms map[string]*term // by election
}

// term records how long this process has led an election.
type term struct {
	total time.Duration            // of leaderships that have ended
	since map[leadership]time.Time // start of leaderships that last
}

// leadership identifies a leadership of an election. Each Elector counts its own attempts,
// so two Electors of one process may have the same number.
type leadership struct {
	token   election.Token
	attempt uint64
}

// remainingBuckets fit leases from one second to some minutes.
var remainingBuckets = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60}

const namespace, subsystem = "conclave", "election"

// New returns metrics, to which all functions made by OnEvent add.
func New() *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, []string{"election"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, append([]string{"election"}, labels...))
	}
	return &Metrics{
		leading:   gauge("leading", "1 while this process leads the election."),
		token:     gauge("token", "Fencing token of the present or last leadership of this process."),
		campaigns: counter("campaigns_total", "Attempts of this process to be elected."),
		elected:   counter("elected_total", "Leaderships of this process that have begun."),
		changes:   counter("changes_total", "Leaderships of this process that have ended, by reason.", "reason"),
		renewals:  counter("renewals_total", "Renewals that the store has granted."),
		failures:  counter("failures_total", "Operations that have failed.", "operation"),
		stucks:    counter("stuck_total", "Functions that still ran when their time was over."),
		remaining: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "renewal_remaining_seconds",
			Help: "Time left to the deadline when a renewal was granted or failed.", Buckets: remainingBuckets}, []string{"election"}),
		seconds: prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, "leading_seconds_total"),
			"Time for which this process has led.", []string{"election"}, nil),
		now:   time.Now,
		terms: make(map[string]*term),
	}
}

// OnEvent returns a function for Options.OnEvent that counts every event and then
// calls next, if that is not nil. One function may serve several electors.
func (m *Metrics) OnEvent(next func(election.Event)) func(election.Event) {
	return func(e election.Event) {
		m.count(e)
		if next != nil {
			next(e)
		}
	}
}

func (m *Metrics) count(e election.Event) {
	name := e.Election
	switch e.Kind {
	case election.EventCampaigning:
		m.campaigns.WithLabelValues(name).Inc()
		m.leading.WithLabelValues(name) // shows a 0 from here on
		m.at(name, func(*term) {})
	case election.EventElected:
		m.elected.WithLabelValues(name).Inc()
		m.token.WithLabelValues(name).Set(float64(e.Token))
		m.leading.WithLabelValues(name).Inc()
		m.at(name, func(t *term) { t.since[leadership{e.Token, e.Attempt}] = m.now() })
	case election.EventLost:
		m.changes.WithLabelValues(name, e.Reason.String()).Inc()
		m.leading.WithLabelValues(name).Dec()
		m.at(name, func(t *term) {
			one := leadership{e.Token, e.Attempt}
			if since, led := t.since[one]; led {
				t.total += m.now().Sub(since)
				delete(t.since, one)
			}
		})
	case election.EventRenewed:
		m.renewals.WithLabelValues(name).Inc()
		m.remaining.WithLabelValues(name).Observe(e.Remaining.Seconds())
	case election.EventRenewFailed:
		m.failures.WithLabelValues(name, failed(e)).Inc()
		m.remaining.WithLabelValues(name).Observe(e.Remaining.Seconds())
	case election.EventStuck:
		m.stucks.WithLabelValues(name).Inc()
	default:
		if operation := failed(e); operation != "" {
			m.failures.WithLabelValues(name, operation).Inc()
		}
	}
}

// failed returns the operation that failed according to an event.
func failed(e election.Event) string {
	if e.Kind == election.EventNominated && e.Err != nil {
		return "nominate"
	}
	operation, isFailure := strings.CutSuffix(e.Kind.String(), "-failed")
	if !isFailure {
		return ""
	}
	return operation
}

func (m *Metrics) at(name string, change func(*term)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.terms[name]
	if t == nil {
		t = &term{since: make(map[leadership]time.Time)}
		m.terms[name] = t
	}
	change(t)
}

// vec is a metric with a value for each election.
type vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

func (m *Metrics) collectors() []vec {
	return []vec{m.leading, m.token, m.campaigns, m.elected, m.changes, m.renewals, m.failures, m.stucks, m.remaining}
}

// Forget removes an election that this process no longer takes part in. A program that elects
// under ever new names, such as one for each job, should call it for each, because otherwise all
// names stay in memory and in every scrape. An event that comes later shows the election again.
func (m *Metrics) Forget(election string) {
	for _, c := range m.collectors() {
		c.DeletePartialMatch(prometheus.Labels{"election": election})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.terms, election)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
	out <- m.seconds
}

// Collect implements prometheus.Collector. A leadership that still lasts counts up to now.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range m.terms {
		total := t.total
		for _, since := range t.since {
			total += m.now().Sub(since)
		}
		out <- prometheus.MustNewConstMetric(m.seconds, prometheus.CounterValue, total.Seconds(), name)
	}
}
