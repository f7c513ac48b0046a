package consul

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// silent is a connection that died silently: no request is answered.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestRequestWithoutAnAnswerEnds, whichever request it is, and even if nothing
// else limits its time.
func TestRequestWithoutAnAnswerEnds(t *testing.T) {
	for what := range requestsWithoutAnswers(t) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request := requestsWithoutAnswers(t)[what]
				began := time.Now()
				if err := request(context.Background()); err == nil {
					t.Error("no error")
				}
				if took := time.Since(began); took > LeaseMinDefault {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// requestsWithoutAnswers returns all kinds of requests, each on a store of its own.
func requestsWithoutAnswers(t *testing.T) map[string]func(context.Context) error {
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1", HttpClient: &http.Client{Transport: silent{}}})
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(client, Options{})
	t.Cleanup(store.end)
	claim := election.Claim{Election: "e", ID: "a", Nonce: "n", Lease: LeaseMinDefault}
	found, e := store.Entry(t.Context(), claim).(*entry), store.Entry(t.Context(), claim).(*entry)
	session := "s"
	e.session.Store(&session)
	next := queue.Candidate{ID: "b", Key: "k", Owner: "s"}
	return map[string]func(context.Context) error{
		"create":   func(ctx context.Context) error { _, err := found.Create(ctx); return err },
		"enter":    e.Enter,
		"renew":    func(ctx context.Context) error { _, err := e.Renew(ctx); return err },
		"place":    func(ctx context.Context) error { _, err := e.Place(ctx); return err },
		"lock":     func(ctx context.Context) error { _, err := e.Lock(ctx); return err },
		"prove":    func(ctx context.Context) error { _, err := e.Prove(ctx, &queue.History{}); return err },
		"history":  func(ctx context.Context) error { _, err := e.History(ctx); return err },
		"note":     func(ctx context.Context) error { return e.Note(ctx, queue.History{}) },
		"nominate": func(ctx context.Context) error { _, err := e.Nominate(ctx, next); return err },
		"answered": func(ctx context.Context) error { _, err := e.Answered(ctx, next, queue.Nomination{}); return err },
		"answer":   func(ctx context.Context) error { return e.Answer(ctx, queue.Nomination{}) },
		"leave":    func(ctx context.Context) error { return e.Leave(ctx, nil, &next) },
		"revoke":   e.Revoke,
		"find":     found.Revoke,
		"names":    func(ctx context.Context) error { _, err := store.Names(ctx); return err },
		"look":     func(ctx context.Context) error { _, err := store.Observe(ctx, "e").Look(ctx, true); return err },
	}
}
