package electiontest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

func testTokens(t *testing.T, s Suite) {
	backend := s.Open(t, s.URL(t))
	var last election.Token
	for i := range s.Elections {
		grant := acquire(t, backend, newClaim("tokens", "a"))
		if grant.Token <= last {
			t.Fatalf("election %d: token %d after %d", i, grant.Token, last)
		}
		last = grant.Token
		release(t, backend, grant)
	}
}

func testNames(t *testing.T, s Suite) {
	backend := s.Open(t, s.URL(t))
	for _, name := range []string{"a", "A", "a/b", "a%2fb", "a b", "ä", ".a", "a.", "a\\b", "a:b"} {
		grant := acquire(t, backend, newClaim(name, "me")) // would wait for a namesake
		if _, err := backend.Renew(t.Context(), grant); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		defer release(t, backend, grant)
	}
}

func testRelease(t *testing.T, s Suite) {
	url := s.URL(t)
	a, b := s.Open(t, url), s.Open(t, url)
	release(t, a, election.Grant{Claim: newClaim("release", "nobody")})
	old := acquire(t, a, newClaim("release", "a"))
	release(t, a, old)
	release(t, a, old)
	now := acquire(t, b, newClaim("release", "b"))
	release(t, a, old)
	if _, err := b.Renew(t.Context(), now); err != nil {
		t.Errorf("a release of another grant took this one: %v", err)
	}
	if _, err := a.Renew(t.Context(), old); err == nil {
		t.Error("a grant that was released was renewed")
	}
	release(t, b, now)
}

func testObserve(t *testing.T, s Suite) {
	url := s.URL(t)
	a, b := s.Open(t, url), s.Open(t, url)
	awaitView(t, s, url, "seen", func(v election.View) bool { return v.Leader == "" && v.Token == 0 })
	first := acquire(t, a, newClaim("seen", "a"))
	leads := func(id string, token election.Token) func(election.View) bool {
		return func(v election.View) bool {
			return v.Leader == id && v.Token == token && !v.Since.IsZero() && v.Err == nil
		}
	}
	awaitView(t, s, url, "seen", leads("a", first.Token))
	granted := make(chan election.Grant, 1)
	go func() {
		grant, err := b.Acquire(t.Context(), newClaim("seen", "b"))
		if err != nil {
			t.Error(err)
		}
		granted <- grant
	}()
	awaitView(t, s, url, "seen", func(v election.View) bool {
		return v.Leader == "a" && len(v.Candidates) == 1 && v.Candidates[0] == "b"
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watching := newElector(t, s.Open(t, url), "seen", "watcher", s.Lease, false)
	released := false
	for view := range watching.Observe(ctx) {
		if !released {
			release(t, a, first)
			released = true
		}
		if view.Leader == "b" {
			break
		}
	}
	second := <-granted
	awaitView(t, s, url, "seen", leads("b", second.Token))
	release(t, b, second)
	awaitView(t, s, url, "seen", func(v election.View) bool { return v.Leader == "" && len(v.Candidates) == 0 })
}

// leads wraps a function of a leader so that its belief is filed.
func (h *history) leads(function func(context.Context, election.Leadership) error,
) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, lead election.Leadership) error {
		b := belief{who: lead.ID(), token: lead.Token(), from: election.Now()}
		err := function(ctx, lead)
		b.to = election.Now()
		h.add(b)
		return err
	}
}

// verify judges the history, of which there must be as many as expected.
func verify(t *testing.T, h *history, leaderships int) {
	t.Helper()
	for _, wrong := range h.judge() {
		t.Error(wrong)
	}
	if h.len() != leaderships {
		t.Errorf("%d leaderships, expected %d", h.len(), leaderships)
	}
}

func newElector(t testing.TB, b election.Backend, name, id string, lease time.Duration, forever bool,
) *election.Elector {
	t.Helper()
	elector, err := election.New(b, name, election.Options{ID: id, Lease: lease, Forever: forever,
		Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond})
	if err != nil {
		t.Error(err)
	}
	return elector
}

// newClaim returns a claim for a lease that needs no renewal within a test.
func newClaim(name, id string) election.Claim {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	return election.Claim{Election: name, ID: id, Nonce: hex.EncodeToString(nonce[:]),
		Lease: 2 * patience}
}

func acquire(t testing.TB, b election.Backend, claim election.Claim) election.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	grant, err := b.Acquire(ctx, claim)
	if err != nil {
		t.Fatalf("acquire %q: %v", claim.Election, err)
	}
	return grant
}

func release(t testing.TB, b election.Backend, grant election.Grant) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Release(ctx, grant); err != nil {
		t.Errorf("release %q: %v", grant.Claim.Election, err)
	}
}

// awaitView returns when an observer sees what is wanted.
func awaitView(t testing.TB, s Suite, url, name string, want func(election.View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := "nothing"
	for view, err := range s.Open(t, url).Observe(ctx, name) {
		view.Err = err
		if want(view) {
			return
		}
		last = fmt.Sprintf("%+v", view)
	}
	t.Fatalf("the observer did not see it within %v; the last view: %s", patience, last)
}
