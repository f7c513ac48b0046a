//go:build linux

package queuetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/overlap"
)

// Store is a store under test. Tests that need a nil field are skipped.
type Store struct {
	// URL returns the address of an empty store, and Open opens a backend on it.
	URL  func(t testing.TB) string
	Open func(t testing.TB, url string) election.Backend
	// Link returns an address of the same store over a link of its own.
	Link func(t testing.TB, url string) (proxied string, link overlap.Link)
	// Left counts what the store still keeps of candidates.
	Left func(t testing.TB, url string) int
	// Waiting returns the names of the waiters in the election "e" in the store, in order,
	// without the holder.
	Waiting func(t testing.TB, url string) []string
	// Remove removes a waiter from the queue, and EndLease ends its lease.
	Remove, EndLease func(t testing.TB, url, waiter string)
	// Write returns a function that writes under the Fence of a leadership, with a client
	// of its own. Delete deletes everything of an election.
	Write  func(t testing.TB, url string) func(election.Leadership) error
	Delete func(t testing.TB, url, election string)
	// Lease is the shortest lease that the store grants.
	Lease time.Duration
}

// Run runs all tests that the fields of the store allow.
func Run(t *testing.T, s Store) {
	if s.EndLease != nil {
		t.Run("WaiterWhoseLeaseDiedIsNeverTold", s.leaseDied)
	}
	if s.Remove != nil {
		t.Run("WaiterWhoseEntryIsRemovedGoesToTheEnd", s.entryRemoved)
	}
	if s.Write != nil {
		t.Run("WriteOfALeaderOfThePastIsRefused", s.pastRefused)
	}
	if s.Link != nil {
		t.Run("ClaimWithoutAnAnswerIsFoundAndReleased", s.withoutAnswer)
		t.Run("NoTwoLeadOverBadLinks", s.badLinks)
	}
}

// limit is how long anything may take, far more than it needs.
const limit = 30 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func claim(id string) election.Claim {
	return election.Claim{Election: "e", ID: id, Nonce: fmt.Sprintf("%032x", id), Lease: 20 * time.Second}
}

// await waits until there are count waiters, and returns them.
func (s Store) await(t testing.TB, url string, count int) []string {
	t.Helper()
	for began := time.Now(); time.Since(began) < limit; time.Sleep(time.Millisecond) {
		if now := s.Waiting(t, url); len(now) == count {
			return now
		}
	}
	t.Fatalf("there never were %d waiters", count)
	return nil
}

func (s Store) acquire(t testing.TB, b election.Backend, id string) election.Grant {
	t.Helper()
	grant, err := b.Acquire(within(t), claim(id))
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// acquiring lets a candidate wait, and returns channels for its grant or its error.
func acquiring(ctx context.Context, b election.Backend, one election.Claim) (<-chan election.Grant, <-chan error) {
	granted, ended := make(chan election.Grant, 1), make(chan error, 1)
	go func() {
		grant, err := b.Acquire(ctx, one)
		granted <- grant
		ended <- err
	}()
	return granted, ended
}

func release(t testing.TB, b election.Backend, grant election.Grant) {
	t.Helper()
	if err := b.Release(within(t), grant); err != nil {
		t.Fatal(err)
	}
}

// leaseDied (scenario-E11): a waiter whose lease has ended must not lead; etcd's own
// Campaign tells it that it does.
func (s Store) leaseDied(t *testing.T) {
	url := s.URL(t)
	a, b := s.Open(t, url), s.Open(t, url)
	held := s.acquire(t, a, "a")
	_, ended := acquiring(within(t), b, claim("b"))
	s.EndLease(t, url, s.await(t, url, 1)[0])
	release(t, a, held)
	if err := <-ended; !errors.Is(err, election.ErrLost) {
		t.Errorf("Acquire returned %v", err)
	}
	s.await(t, url, 0)
	for view, err := range a.Observe(within(t), "e") {
		if err != nil || view.Leader != "" {
			t.Errorf("%q leads, %v", view.Leader, err)
		}
		break
	}
}

// entryRemoved: a waiter whose entry was removed still has its lease. It stays a waiter,
// and never counts the lost entry as its place.
func (s Store) entryRemoved(t *testing.T) {
	url := s.URL(t)
	b := s.Open(t, url)
	held := s.acquire(t, b, "a")
	first, _ := acquiring(within(t), b, claim("b"))
	s.await(t, url, 1)
	second, _ := acquiring(within(t), b, claim("c"))
	before := s.await(t, url, 2)
	s.Remove(t, url, before[0])
	for now := s.await(t, url, 2); now[0] != before[1]; now = s.await(t, url, 2) {
		time.Sleep(time.Millisecond)
	}
	for _, next := range []<-chan election.Grant{second, first} {
		release(t, b, held)
		grant := <-next
		if grant.Token <= held.Token {
			t.Errorf("%q is granted with token %d after %d", grant.Claim.ID, grant.Token, held.Token)
		}
		held = grant
	}
}

// withoutAnswer: the lease is granted, but the answer with its number is lost.
func (s Store) withoutAnswer(t *testing.T) {
	url := s.URL(t)
	proxied, link := s.Link(t, url)
	b := s.Open(t, proxied)
	release(t, b, s.acquire(t, b, "first")) // to open the connection
	link.CutReplies()
	ctx, cancel := context.WithCancel(t.Context())
	lost := claim("lost")
	_, ended := acquiring(ctx, b, lost)
	for began := time.Now(); s.Left(t, url) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatal("the request has not arrived")
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("granted without an answer")
	}
	link.Heal()
	release(t, b, election.Grant{Claim: lost})
	if count := s.Left(t, url); count != 0 {
		t.Errorf("%d things are left", count)
	}
}

// badLinks cuts and slows candidates' links, in either direction, while they lead, resign,
// are paused and are killed.
func (s Store) badLinks(t *testing.T) {
	url := s.URL(t)
	var urls []string
	var links []overlap.Link
	for range overlap.Candidates {
		proxied, link := s.Link(t, url)
		links, urls = append(links, link), append(urls, proxied)
	}
	overlap.Run(t, overlap.Shared{
		Backend: s.Open(t, url), URLs: urls, Election: "e", Lease: s.Lease, Handovers: 12, Patience: time.Minute,
		Leads: overlap.BadLinks(links, s.Lease),
	})
}
