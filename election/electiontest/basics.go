package electiontest

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/election"
)

func testTokens(t *testing.T, s Suite) {
	backend := s.Open(t, s.URL(t))
	var last election.Token
	for i := range s.Elections {
		grant := s.acquire(t, backend, s.newClaim("tokens", "a"))
		if grant.Token <= last {
			t.Fatalf("election %d: token %d after %d", i, grant.Token, last)
		}
		last = grant.Token
		s.release(t, backend, grant)
	}
}

// oddNames are names of elections that a store might confuse or refuse.
var oddNames = []string{"a", "A", "a/b", "a%2fb", "a b", "ä", ".a", "a.", "a\\b", "a:b"}

func testNames(t *testing.T, s Suite) {
	backend := s.Open(t, s.URL(t))
	for _, name := range oddNames {
		grant := s.acquire(t, backend, s.newClaim(name, "me")) // would wait for a namesake
		if _, err := backend.Renew(s.within(t), grant); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		defer s.release(t, backend, grant)
	}
}

func testRelease(t *testing.T, s Suite) {
	url := s.URL(t)
	a, b := s.Open(t, url), s.Open(t, url)
	s.release(t, a, election.Grant{Claim: s.newClaim("release", "nobody")})
	old := s.acquire(t, a, s.newClaim("release", "a"))
	s.release(t, a, old)
	s.release(t, a, old)
	now := s.acquire(t, b, s.newClaim("release", "b"))
	s.release(t, a, old)
	if _, err := b.Renew(s.within(t), now); err != nil {
		t.Errorf("a release of another grant took this one: %v", err)
	}
	if _, err := a.Renew(s.within(t), old); err == nil {
		t.Error("a grant that was released was renewed")
	}
	s.release(t, b, now)
}

func testObserve(t *testing.T, s Suite) {
	url := s.URL(t)
	a, b := s.Open(t, url), s.Open(t, url)
	s.awaitView(t, url, "seen", func(v election.View) bool { return v.Leader == "" && v.Token == 0 })
	first := s.acquire(t, a, s.newClaim("seen", "a"))
	leads := func(id string, token election.Token) func(election.View) bool {
		return func(v election.View) bool {
			return v.Leader == id && v.Token == token && !v.Since.IsZero() && v.Err == nil
		}
	}
	s.awaitView(t, url, "seen", leads("a", first.Token))
	granted, _ := s.acquiring(t, b, s.newClaim("seen", "b"))
	if a.Traits().Waiters {
		s.awaitView(t, url, "seen", func(v election.View) bool {
			return v.Leader == "a" && slices.Equal(v.WaiterIDs(), []string{"b"})
		})
	}
	watching := s.newElector(t, s.Open(t, url), "seen", election.Options{Once: true, ID: "watcher"})
	released := false
	for view := range watching.Observe(s.within(t)) {
		if !released {
			s.release(t, a, first)
			released = true
		}
		if view.Leader == "b" {
			break
		}
	}
	second := await(t, s, "b is granted", granted)
	s.awaitView(t, url, "seen", leads("b", second.Token))
	s.release(t, b, second)
	s.awaitNobody(t, url, "seen")
}
