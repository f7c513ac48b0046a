package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/conclave-project/conclave/election"
)

// Header is the HTTP header that carries a token, in decimal digits. In an answer with status
// 412, it carries the token that caused the refusal.
const Header = "Conclave-Token"

// Handler lets requests whose Header has the newest token pass to next, and keeps that token in
// their context (TokenOf). Other requests get
//
//	412 Precondition Failed    the token is stale
//	428 Precondition Required  there is none
//	400 Bad Request            it is no number, or there are several
//	503 Service Unavailable    the token could not be stored, older requests
//	                           did not end while this one waited, or the
//	                           fence is closed
//
// When a newer token comes, or Close is called, the contexts of older requests that are still
// being served end, as do their reads and soon their writes; the newer request, or Close, waits
// for them. A client that is frozen during a request delays nobody, as long as
// http.ResponseController can set the deadlines of the server. An HTTP/1 connection is closed
// after a request that was ended this way; the answer is truncated if its header had been written
// before.
func (f *Fence) Handler(resource string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := FromRequest(r)
		if err != nil {
			refuse(w, err)
			return
		}
		a := &answer{ResponseWriter: w, lasts: r.ProtoMajor == 1}
		err = f.Do(r.Context(), resource, token, func(ctx context.Context) error {
			defer a.dismissing(ctx)()
			next.ServeHTTP(a.writer(), r.WithContext(WithToken(ctx, token)))
			return nil
		})
		if err != nil {
			refuse(w, err)
			return
		}
		a.finish()
	})
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var stale *StaleError
	switch {
	case errors.As(err, &stale):
		status = http.StatusPreconditionFailed
		w.Header().Set(Header, format(stale.Seen))
	case errors.Is(err, ErrNoToken):
		status = http.StatusPreconditionRequired
	case errors.Is(err, strconv.ErrSyntax), errors.Is(err, strconv.ErrRange):
		status = http.StatusBadRequest
	}
	http.Error(w, err.Error(), status)
}

// FromRequest returns the token of a request, or ErrNoToken if it has none. Several tokens are
// also an error, because nobody knows which one is the leader's.
func FromRequest(r *http.Request) (election.Token, error) {
	if values := r.Header.Values(Header); len(values) > 1 {
		return 0, fmt.Errorf("header %s: %w: %d values", Header, strconv.ErrSyntax, len(values))
	}
	return parse(r.Header.Get(Header))
}

func parse(text string) (election.Token, error) {
	if text == "" {
		return 0, fmt.Errorf("header %s: %w", Header, ErrNoToken)
	}
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("header %s: %w", Header, err)
	}
	if token == 0 {
		return 0, fmt.Errorf("header %s: %w", Header, ErrNoToken)
	}
	return election.Token(token), nil
}

func format(token election.Token) string { return strconv.FormatUint(uint64(token), 10) }

// Transport is an http.RoundTripper that adds the token of the request's context (TokenOf).
// Without a token, or after the leadership has ended, it sends nothing.
type Transport struct {
	// Base does the work; nil is http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip sends the request with its token.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := TokenOf(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(Header, format(token))
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

// CheckResponse returns a *StaleError if the answer comes from a Handler that has refused a stale
// token, otherwise nil. A leader that gets this error should stop leading.
func CheckResponse(r *http.Response) error {
	seen, err := parse(r.Header.Get(Header))
	if r.StatusCode != http.StatusPreconditionFailed || err != nil {
		return nil
	}
	stale := &StaleError{Seen: seen}
	if r.Request != nil {
		stale.Resource = r.Request.URL.Redacted()
		stale.Token, _ = FromRequest(r.Request)
	}
	return stale
}
