package gcs

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// badWay is a candidate's connection to the service: requests and answers are late,
// lost or overtake each other, and the service is overloaded now and then.
type badWay struct {
	service *service
	link    *electiontest.BadLink
}

// RoundTrip implements http.RoundTripper.
func (w badWay) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	arrived := r.Clone(context.WithoutCancel(r.Context()))
	arrived.Body = io.NopCloser(bytes.NewReader(body))
	answers := make(chan *http.Response, 1)
	if err := w.link.Pass(r.Context(), func() {
		answer := httptest.NewRecorder()
		w.service.ServeHTTP(answer, arrived)
		answers <- answer.Result()
	}); err != nil {
		return nil, err
	}
	return <-answers, nil
}

// overloaded answers one request in twenty with 429, and one with 503, half of which
// were carried out.
func overloaded(rng *rand.Rand) meddling {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		mu.Lock()
		fate := rng.IntN(40)
		mu.Unlock()
		switch fate {
		case 0, 1:
			refuse(w, 429, "rateLimitExceeded", "too many")
		case 2:
			serve(httptest.NewRecorder(), r)
			refuse(w, 503, "backendError", "Backend Error")
		case 3:
			refuse(w, 503, "backendError", "Backend Error")
		default:
			serve(w, r)
		}
	}
}

// hasty is the store with shorter leases than it allows.
type hasty struct{ *store }

func (h hasty) Traits() election.Traits {
	traits := h.store.Traits()
	traits.LeaseMin = 10 * time.Millisecond
	return traits
}

// TestNoTwoLeadOnAServiceThatAnswersBadly checks gcs-G1 to gcs-G4 and gcs-G7 on
// virtual time. Operators ask leaders to resign.
func TestNoTwoLeadOnAServiceThatAnswersBadly(t *testing.T) {
	var v *service
	simulate := func(t *testing.T, damage bool, meddle func(operator *record.Backend, rng *rand.Rand)) {
		electiontest.Simulate(t, electiontest.Simulation{
			Elections: 300, Damage: damage,
			Begin: func() func(*electiontest.BadLink) election.Backend {
				v = newService()
				v.meddle = overloaded(rand.New(rand.NewPCG(1, 2)))
				return func(link *electiontest.BadLink) election.Backend {
					s, err := newStore(&http.Client{Transport: badWay{v, link}},
						Options{Bucket: "b", Endpoint: "http://service", Poll: 50 * time.Millisecond})
					if err != nil {
						t.Fatal(err)
					}
					return record.New(hasty{s}, record.Options{Clock: link.Clock})
				}
			},
			Meddle: func(rng *rand.Rand) {
				meddle(record.New(v.store(t), record.Options{Clock: electiontest.VirtualClock(1)}), rng)
			},
		})
	}
	ask := func(operator *record.Backend, _ *rand.Rand) {
		_ = operator.Ask(context.Background(), "simulated", election.Request{}) // there may be no leader
	}
	t.Run("Asked", func(t *testing.T) { simulate(t, false, ask) })
	// Tokens grow although objects are deleted.
	t.Run("Deleted", func(t *testing.T) {
		simulate(t, true, func(operator *record.Backend, rng *rand.Rand) {
			if rng.IntN(2) == 0 {
				v.mu.Lock()
				delete(v.objects, "elections/simulated.json")
				v.mu.Unlock()
				return
			}
			ask(operator, rng)
		})
	})
}
