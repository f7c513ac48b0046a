package electiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

func testKilled(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	a := startProcess(t, h, order{url, "killed", "a", s.Lease})
	first := a.awaitElected(patience)
	b := startProcess(t, h, order{url, "killed", "b", s.Lease})
	awaitView(t, s, url, "killed", func(v election.View) bool { return slices.Equal(v.Candidates, []string{"b"}) })
	a.kill()
	killed := election.Now()
	second := b.awaitElected(patience)
	if took := election.Now().Sub(killed); took > 2*s.Lease+time.Second {
		t.Errorf("the handover took %v with a lease of %v", took, s.Lease)
	}
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	b.stop()
	verify(t, h, 2)
}

// testKilledAgain kills each holder some moments after its election, the first
// at once.
func testKilledAgain(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	rounds := 20
	if s.Open(t, url).Traits().Expires {
		rounds = 3 // each costs a lease
	}
	var last election.Token
	for i := range rounds {
		p := startProcess(t, h, order{url, "again", fmt.Sprint("p", i), s.Lease})
		token := p.awaitElected(patience)
		if token <= last {
			t.Fatalf("round %d: token %d after %d", i, token, last)
		}
		last = token
		time.Sleep(time.Duration(i) * time.Millisecond)
		p.kill()
	}
	verify(t, h, rounds)
}

// testFrozen freezes the leader for three leases. Where leases expire, the
// other leads meanwhile; where they do not, it leads after the thaw. In both
// the frozen one must not believe for one moment longer.
func testFrozen(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	a := startProcess(t, h, order{url, "frozen", "a", s.Lease})
	first := a.awaitElected(patience)
	b := startProcess(t, h, order{url, "frozen", "b", s.Lease})
	awaitView(t, s, url, "frozen", func(v election.View) bool { return slices.Equal(v.Candidates, []string{"b"}) })
	a.freeze()
	if s.Open(t, url).Traits().Expires {
		if second := b.awaitElected(patience); second <= first {
			t.Errorf("token %d after %d", second, first)
		}
		a.thaw()
	} else {
		time.Sleep(3 * s.Lease)
		a.thaw()
		b.awaitElected(patience)
	}
	b.stop()
	a.awaitElected(patience) // it campaigns again
	a.stop()
	verify(t, h, 3)
}

func testResigned(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	a := startProcess(t, h, order{url, "resigned", "a", s.Lease})
	a.awaitElected(patience)
	b := startProcess(t, h, order{url, "resigned", "b", s.Lease})
	awaitView(t, s, url, "resigned", func(v election.View) bool { return slices.Equal(v.Candidates, []string{"b"}) })
	a.resign()
	b.awaitElected(patience)
	a.stop()
	b.stop()
	verify(t, h, 2)
}

func testStoppedWaiter(t *testing.T, s Suite) {
	url := s.URL(t)
	a := s.Open(t, url)
	held := acquire(t, a, newClaim("waiter", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	claim := newClaim("waiter", "b")
	ended := make(chan error, 1)
	b := s.Open(t, url)
	go func() {
		_, err := b.Acquire(ctx, claim)
		ended <- err
	}()
	awaitView(t, s, url, "waiter", func(v election.View) bool { return slices.Equal(v.Candidates, []string{"b"}) })
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Fatal("granted beside a holder")
		}
	case <-time.After(patience):
		t.Fatal("Acquire does not heed its context")
	}
	release(t, b, election.Grant{Claim: claim})
	release(t, a, held)
	awaitView(t, s, url, "waiter", func(v election.View) bool { return v.Leader == "" && len(v.Candidates) == 0 })
	release(t, a, acquire(t, a, newClaim("waiter", "c")))
}

// testLostReplies loses the reply to a grant: the elector withdraws the claim
// and is elected with another, and nobody has to wait for a lease.
func testLostReplies(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	backend := NewFaulty(s.Open(t, url))
	backend.LoseReplies("acquire", 2)
	backend.LoseReplies("release", 1)
	elector := newElector(t, backend, "lost", "a", s.Lease, false)
	err := elector.Run(t.Context(), h.leads(func(context.Context, election.Leadership) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	if calls := backend.Calls("acquire"); calls != 3 {
		t.Errorf("%d attempts, expected 3", calls)
	}
	verify(t, h, 1)
	awaitView(t, s, url, "lost", func(v election.View) bool { return v.Leader == "" && len(v.Candidates) == 0 })
}

// testLateReplies delays the answers of renewals beyond the lease: they arrive
// and must not be believed.
func testLateReplies(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	backend := NewFaulty(s.Open(t, url))
	elector := newElector(t, backend, "late", "a", s.Lease, false)
	err := elector.Run(t.Context(), h.leads(func(ctx context.Context, lead election.Leadership) error {
		backend.Delay("renew", 2*s.Lease)
		<-ctx.Done()
		if lead.Remaining() > s.Lease/2 {
			t.Errorf("told to end %v before the deadline", lead.Remaining())
		}
		return nil
	}))
	if !errors.Is(err, election.ErrLost) {
		t.Fatalf("Run returned %v", err)
	}
	verify(t, h, 1)
}

// testCut cuts the leader off and lets another campaign.
func testCut(t *testing.T, s Suite) {
	h, url := &history{}, s.URL(t)
	backend, cut, clear := s.cuttable(t, url)
	first := newElector(t, backend, "cut", "a", s.Lease, false)
	second := newElector(t, s.Open(t, url), "cut", "b", s.Lease, false)
	ran := make(chan error, 1)
	err := first.Run(t.Context(), h.leads(func(ctx context.Context, _ election.Leadership) error {
		cut()
		go func() {
			ran <- second.Run(t.Context(), h.leads(func(context.Context, election.Leadership) error { return nil }))
		}()
		<-ctx.Done()
		return nil
	}))
	if !errors.Is(err, election.ErrLost) {
		t.Fatalf("the one that was cut off returned %v", err)
	}
	clear()
	select {
	case err := <-ran:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("nobody is elected after the one that was cut off")
	}
	verify(t, h, 2)
}

// cuttable opens a backend with a way to cut it off. Clear lets others lead
// where leases do not expire: there only a release or a death does.
func (s Suite) cuttable(t *testing.T, url string) (backend election.Backend, cut, clear func()) {
	if s.OpenCut != nil {
		backend, cut = s.OpenCut(t, url)
		return backend, cut, func() {}
	}
	faulty := NewFaulty(s.Open(t, url))
	return faulty, faulty.Cut, func() {
		if faulty.Traits().Expires {
			return
		}
		faulty.Heal()
		for _, grant := range faulty.abandoned() {
			release(t, faulty, grant)
		}
	}
}

func testReleaseRaces(t *testing.T, s Suite) {
	h := &history{}
	const candidates, turns = 8, 5
	compete(t, s, h, "races", candidates, turns)
	verify(t, h, candidates*turns)
}

func testHundred(t *testing.T, s Suite) {
	h := &history{}
	compete(t, s, h, "hundred", 100, 1)
	verify(t, h, 100)
}

// compete lets candidates lead a number of times each, as briefly as possible.
func compete(t *testing.T, s Suite, h *history, name string, candidates, turns int) {
	url := s.URL(t)
	results := make(chan error, candidates)
	for i := range candidates {
		backend := s.Open(t, url)
		go func() {
			elector := newElector(t, backend, name, fmt.Sprintf("c%03d", i), s.Lease, false)
			for range turns {
				err := elector.Run(t.Context(), h.leads(func(context.Context, election.Leadership) error { return nil }))
				if err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	for range candidates {
		select {
		case err := <-results:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(4 * patience):
			t.Fatalf("not all have led: %d leaderships", h.len())
		}
	}
}
