package metrics

import (
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/prometheus/client_golang/prometheus"
)

// sample is the state of a server at one scrape.
type sample struct {
	server.Status
	server.Meters
	version       string
	opened, limit float64 // file descriptors
	connsMax      int     // connections of clients; 0 is no limit
	dirs          []dir

	plainAdmin, snapshotsLimited int64
}

// dir is a directory of the server's data.
type dir struct{ use, path string }

// Server is the server that is scraped: a *server.Server.
type Server interface {
	Status() server.Status
	Meters() server.Meters
	Config() server.Config
	SnapDir() string
	LogDir() string
	DirBytes(dir string) int64
}

// Collector answers scrapes. Several scrapes may run at the same time.
type Collector struct {
	server  Server
	version string
	now     func() time.Time

	// PlainAdmin returns how many connections without TLS the ports for operators that
	// accept both have had; nil: there is no such port. Set it before the first scrape.
	PlainAdmin func() int64
	// SnapshotsLimited returns how many requests for a snapshot the admin port has refused
	// because they came too soon; nil: there is no such port. Set it before the first scrape.
	SnapshotsLimited func() int64

	windows struct {
		sync.Mutex
		of map[string]*window
	}
}

// New returns the collector of a server that is running or will be: until then a
// scrape waits. version is the program's.
func New(s Server, version string) *Collector {
	c := &Collector{server: s, version: version, now: time.Now}
	c.windows.of = map[string]*window{}
	return c
}

// Describe describes nothing: which metrics there are depends on the server's role.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

var errEnded = errors.New("metrics: the server has ended")

// Collect reads the server's state once.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := &sample{Status: c.server.Status(), Meters: c.server.Meters(), version: c.version}
	if s.Ended {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(errEnded), errEnded)
		return
	}
	opened, limit := admin.Descriptors()
	s.opened, s.limit, s.connsMax = float64(opened), float64(limit), c.server.Config().ConnsMax
	if c.PlainAdmin != nil {
		s.plainAdmin = c.PlainAdmin()
	}
	if c.SnapshotsLimited != nil {
		s.snapshotsLimited = c.SnapshotsLimited()
	}
	s.dirs = []dir{{"snapshots", c.server.SnapDir()}, {"log", c.server.LogDir()}}
	for i := range names {
		r := &names[i]
		switch {
		case r.value != nil:
			if v, ok := r.value(s); ok {
				out <- prometheus.MustNewConstMetric(prometheus.NewDesc(r.name, r.text, nil, nil), r.kind.value(), v)
			}
		case r.spread != nil:
			out <- c.summary(r, "", r.spread(s))
		case r.of != nil:
			for _, l := range r.of(s) {
				if utf8.ValidString(l.key) { // an invalid label would fail the whole scrape
					out <- c.labelled(r, &l)
				}
			}
		}
	}
	own(s, out)
	c.disks(s.dirs, out)
}

// label is the label of sets, as in ZooKeeper.
const label = "key"

// labelled emits one metric of a set.
func (c *Collector) labelled(r *name, l *labelled) prometheus.Metric {
	desc := prometheus.NewDesc(r.name, r.text, []string{label}, nil)
	switch {
	case l.spread != nil:
		return c.summary(r, l.key, l.spread)
	case summaries[r.name]:
		return prometheus.MustNewConstSummary(desc, uint64(l.count), float64(l.sum), nil, l.key)
	case counted[r.name]:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(l.count), l.key)
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(l.sum), l.key)
}

// summary emits a distribution in the form of ZooKeeper's summaries, with a key if it is in a set.
func (c *Collector) summary(r *name, key string, d *tally.Distribution) prometheus.Metric {
	c.windows.Lock()
	defer c.windows.Unlock()
	w := c.windows.of[r.name+" "+key]
	if w == nil {
		w = &window{}
		c.windows.of[r.name+" "+key] = w
	}
	recent := w.since(d, c.now())
	quantiles := map[float64]float64{}
	for _, q := range r.quantiles() {
		quantiles[q] = recent.Quantile(q) / r.unit
	}
	var labels, keys []string
	if key != "" {
		labels, keys = []string{label}, []string{key}
	}
	return prometheus.MustNewConstSummary(prometheus.NewDesc(r.name, r.text, labels, nil), uint64(d.Count), float64(d.Sum)/r.unit, quantiles, keys...)
}
