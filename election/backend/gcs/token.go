package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

const (
	// earlyToken is how long before its end a token is replaced. The old one is used until
	// then if its source does not answer.
	earlyToken = 200 * time.Second
	// fetchWithin bounds one request for a token.
	fetchWithin = 30 * time.Second
)

// tokens returns the token of a source that takes no context. Only one goroutine at a time
// asks the source, and no caller waits longer than its own context lasts.
type tokens struct {
	source oauth2.TokenSource

	mu       sync.Mutex
	token    *oauth2.Token
	err      error         // of the last request
	fetching chan struct{} // closed when the current request ends; nil without one
}

// get returns a token that is valid now.
func (t *tokens) get(ctx context.Context) (*oauth2.Token, error) {
	t.mu.Lock()
	if t.fetching == nil && (!t.token.Valid() || !t.token.Expiry.IsZero() && time.Until(t.token.Expiry) < earlyToken) {
		t.fetching = make(chan struct{})
		go t.fetch(t.fetching)
	}
	token, fetching := t.token, t.fetching
	t.mu.Unlock()
	if token.Valid() {
		return token, nil
	}
	select {
	case <-fetching:
	case <-ctx.Done():
		return nil, fmt.Errorf("get a token: %w", context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.token.Valid() {
		return nil, fmt.Errorf("get a token: %w", t.err)
	}
	return t.token, nil
}

// fetch asks the source for a token.
func (t *tokens) fetch(ended chan struct{}) {
	token, err := t.source.Token()
	if err == nil && !token.Valid() {
		err = errors.New("the one given is not valid")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err = err; err == nil {
		t.token = token
	}
	t.fetching = nil
	close(ended)
}

// transport adds a token to each request.
type transport struct {
	tokens *tokens
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.tokens.get(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	authorized := r.Clone(r.Context())
	token.SetAuthHeader(authorized)
	return t.base.RoundTrip(authorized)
}
