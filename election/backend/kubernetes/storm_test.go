package kubernetes

import (
	"net/http"
	"sync/atomic"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
)

// TestElectionsThroughStorms has candidates campaign on an API server in memory, over client-go and
// over links that lose and delay requests and answers, with watches that lag, end, or are silent.
func TestElectionsThroughStorms(t *testing.T) {
	storm.Through(t, 5, func(t *testing.T, seed uint64) storm.Played { return newLeaseStorm(t, seed) })
}

// leaseStorm is an API server with candidates that reach it over links.
type leaseStorm struct {
	*storm.Links
	t       *testing.T
	api     *apiServer
	streams *streams
	gone    atomic.Int64 // how often the server was
}

func newLeaseStorm(t *testing.T, seed uint64) *leaseStorm {
	w, s := &leaseStorm{t: t, api: newAPI(), streams: newStreams()}, storm.New(seed, false)
	w.api.put = func(lease *coordination.Lease) {
		r := recordOf(lease)
		w.Stands(r.Nonce)
		if r.Next != nil {
			w.Stands(r.Next.Nonce)
		}
	}
	s.Observer = w.backendOn(&overLink{api: w.api, streams: w.streams}, bubble.Clock(1))
	w.Links = s.Linked(100, 0, w.open)
	return w
}

// Play implements storm.Played.
func (w *leaseStorm) Play(faults int) {
	w.Rage(faults, w.back)
	w.Judge()
	_ = w.Observer.(*record.Backend).Close()
}

// back ends all watches, and every second time makes the server forget old versions.
func (w *leaseStorm) back() {
	if w.gone.Add(1)%2 == 0 {
		w.api.forget()
	}
	w.streams.end()
}

func (w *leaseStorm) open(c *storm.Candidate, link *bubble.Link) (election.Backend, func() error) {
	b := w.backendOn(&overLink{w.api, w.streams, link, c.Answered}, c.Clock)
	return b, b.Close
}

// backendOn returns a backend over a link, with a clock of its own.
func (w *leaseStorm) backendOn(l *overLink, its clock.Clock) *record.Backend {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return l })
	s, err := newStore(config, Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	return record.New(s, record.Options{Close: s.close, Clock: its})
}
