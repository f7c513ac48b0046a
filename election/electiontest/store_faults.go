package electiontest

import (
	"context"
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// testDeleted deletes the election while it has a leader (scenario-E10) and while it
// has none: its tokens keep growing (scenario-E12).
func testDeleted(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	elector := s.newElector(t, s.Open(t, url), "deleted", election.Options{Once: true, ID: "a"})
	began := s.clock.Now()
	err := elector.Run(s.within(t), h.leads(func(ctx context.Context, _ election.Leadership) error {
		s.Delete(t, url, "deleted")
		<-ctx.Done()
		return nil
	}))
	if !errors.Is(err, election.ErrLost) {
		t.Errorf("Run returned %v", err)
	}
	if took := s.clock.Now().Sub(began); took > s.handover() {
		t.Errorf("stepping down took %v", took)
	}
	for range 3 {
		if err := elector.Run(s.within(t), h.leads(atOnce)); err != nil {
			t.Fatal(err)
		}
		s.Delete(t, url, "deleted")
	}
	if err := elector.Run(s.within(t), h.leads(atOnce)); err != nil {
		t.Fatal(err)
	}
	s.verify(t, h, 5)
}

// testRestarted kills the store under a leader while another candidate waits.
func testRestarted(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	a := s.run(t, h, s.Open(t, url), "restarted", election.Options{ID: "a"})
	first := await(t, s, "a is elected", a.events.elected)
	b := s.run(t, h, s.Open(t, url), "restarted", election.Options{ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "restarted", "b")
	s.Restart(t, url)
	s.awaitView(t, url, "restarted", func(v election.View) bool { return v.Leader != "" && v.Err == nil })
	a.end(t, s)
	second := await(t, s, "b is elected", b.events.elected)
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	b.end(t, s)
	s.verify(t, h, -1)
}

// testLeft counts what the store keeps after candidates have come and gone: no more
// than after the first one.
func testLeft(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	round := func() {
		a, b := s.Open(t, url), s.Open(t, url)
		grant := s.acquire(t, a, s.newClaim("left", "a"))
		claim := s.newClaim("left", "b")
		_, stop := s.acquiring(t, b, claim)
		s.awaitWaiting(t, url, "left", "b")
		stop()
		s.release(t, b, election.Grant{Claim: claim})
		elector := s.newElector(t, b, "left", election.Options{Once: true, ID: "c"})
		ran := make(chan error, 1)
		go func() { ran <- elector.Run(s.within(t), h.leads(atOnce)) }()
		s.awaitWaiting(t, url, "left", "c")
		s.release(t, a, grant)
		if err := await(t, s, "c has led", ran); err != nil {
			t.Fatal(err)
		}
	}
	round()
	after := s.Left(t, url)
	const rounds = 10
	for range rounds {
		round()
	}
	if now := s.Left(t, url); now > after {
		t.Errorf("the store keeps %d things of candidates after %d rounds, %d after one", now, rounds+1, after)
	}
	s.verify(t, h, rounds+1)
}
