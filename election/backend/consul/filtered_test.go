package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// filtered is a server that answers each transaction with only the results that a
// token may read.
type filtered string

func (f filtered) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"Results":[` + string(f) + `]}`))}, nil
}

// TestResultsThatWereLeftOutAreAnError: Consul leaves out the results that a token
// may not read, so the position of a result says nothing.
func TestResultsThatWereLeftOutAreAnError(t *testing.T) {
	for _, results := range []string{
		"",
		`{"KV":{"Key":"conclave/elections/e/history","ModifyIndex":7,"Value":"W10="}}`,
		`{"KV":{"Key":"conclave/elections/e/line/0000/n","ModifyIndex":7,"Session":"s"}}`,
	} {
		client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1", HttpClient: &http.Client{Transport: filtered(results)}})
		if err != nil {
			t.Fatal(err)
		}
		store := newStore(client, Options{})
		e := store.Entry(t.Context(), election.Claim{Election: "e", ID: "a", Nonce: "n", Lease: LeaseMinDefault}).(*entry)
		session := "s"
		e.session.Store(&session)
		for what, request := range map[string]func(context.Context) error{
			"look":    func(ctx context.Context) error { _, err := store.Observe(ctx, "e").Look(ctx, true); return err },
			"place":   func(ctx context.Context) error { _, err := e.Place(ctx); return err },
			"lock":    func(ctx context.Context) error { _, err := e.Lock(ctx); return err },
			"prove":   func(ctx context.Context) error { _, err := e.Prove(ctx, &queue.History{}); return err },
			"waiters": func(ctx context.Context) error { _, err := e.look(ctx); return err },
		} {
			if err := store.Mark(request(t.Context())); !errors.Is(err, election.ErrPermanent) {
				t.Errorf("%s, with the results [%s]: %v", what, results, err)
			}
		}
	}
}

// unreadable is a server that lists nothing, since the token may read nothing.
type unreadable struct{}

func (unreadable) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusForbidden, "Permission denied: anonymous token lacks permission 'key:read'"
	if r.URL.Query().Has("keys") {
		status, body = http.StatusNotFound, ""
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestListOfWhatATokenMayNotReadIsAnError: Consul leaves all of it out, and tells a client
// without a token not even that.
func TestListOfWhatATokenMayNotReadIsAnError(t *testing.T) {
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1", HttpClient: &http.Client{Transport: unreadable{}}})
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(client, Options{})
	if names, err := store.Names(t.Context()); !errors.Is(store.Mark(err), election.ErrPermanent) {
		t.Errorf("elections %q, error %v", names, err)
	}
}
