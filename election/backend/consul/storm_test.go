package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
)

// TestElectionsThroughStorms has candidates campaign on an agent in memory, over Consul's client
// and over links that lose and delay requests and answers, with watches that lag, end or are lost
// in silence.
func TestElectionsThroughStorms(t *testing.T) {
	storm.Through(t, 10, func(_ *testing.T, seed uint64) storm.Played { return newAgentStorm(seed, queuetest.Mutant{}) })
}

// agentStorm is an agent with candidates that reach it over links.
type agentStorm struct {
	*storm.Links
	mutant queuetest.Mutant
	agent  *agent
}

func newAgentStorm(seed uint64, mutant queuetest.Mutant) *agentStorm {
	s := storm.New(seed, false).Leased(10)
	s.Well = 6 * s.Lease // replacing a dead leader takes two
	w := &agentStorm{mutant: mutant, agent: newAgent(bubble.DriftingClock(s.Random))}
	if mutant.Rate > 0 {
		w.agent.clock = bubble.Clock(mutant.Rate)
	}
	w.agent.put = func(_, session string) { s.Stands(strings.TrimPrefix(session, sessionName(""))) }
	s.Observer = backendOn(direct{w.agent}, bubble.Clock(1))
	w.Links = s.Linked(150, 0, w.open)
	return w
}

// Play implements storm.Played.
func (w *agentStorm) Play(faults int) {
	w.Rage(faults, w.agent.extend)
	w.agent.extend()
	for _, s := range w.agent.sessions {
		w.Breach("the session %q is left", s.Name)
	}
	w.Judge()
}

func (w *agentStorm) open(c *storm.Candidate, link *bubble.Link) (election.Backend, func() error) {
	b := backendOn(&linkedAgent{w.agent, c, link}, c.Clock)
	if w.mutant.Backend != nil {
		return w.mutant.Backend(b), b.Close
	}
	return b, b.Close
}

func backendOn(transport http.RoundTripper, its clock.Clock) *queue.Backend {
	s := storeOn(transport, its)
	return queue.New(s, queue.Options{Close: s.close, Clock: its})
}

// storeOn returns a store that uses a clock of its own.
func storeOn(transport http.RoundTripper, its clock.Clock) *store {
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1", HttpClient: &http.Client{Transport: transport}})
	if err != nil {
		panic(err)
	}
	s := newStore(client, Options{})
	s.now = its.Now
	return s
}

// direct reaches the agent without a link.
type direct struct{ *agent }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err = errors.Join(err, r.Context().Err()); err != nil {
		return nil, err
	}
	return d.serve(r.Context(), r.Method, r.URL, body).response(r), nil
}

func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	return io.ReadAll(r.Body)
}

// linkedAgent reaches the agent over the link of one candidate.
type linkedAgent struct {
	*agent
	c    *storm.Candidate
	link *bubble.Link
}

func (l *linkedAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	got := make(chan agentAnswer, 1)
	ask := func(ctx context.Context) error {
		got <- l.serve(ctx, r.Method, r.URL, body)
		return nil
	}
	if r.URL.Query().Get("index") != "" {
		err = l.link.Watch(r.Context(), ask)
	} else {
		err = l.link.Pass(r.Context(), func() { _ = ask(r.Context()) })
	}
	if err != nil {
		return nil, err
	}
	l.c.Answered()
	return (<-got).response(r), nil
}
