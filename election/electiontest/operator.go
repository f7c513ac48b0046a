package electiontest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

func (s Suite) operator(t testing.TB, url string) election.Operator {
	return s.Open(t, url).(election.Operator)
}

// testRequests asks the leader, through the store, to resign and to hand over.
func testRequests(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	op := s.operator(t, url)
	if err := op.Ask(s.within(t), "asked", election.Request{}); !errors.Is(err, election.ErrNoLeader) {
		t.Errorf("a request of nobody returned %v", err)
	}
	a := s.calm().run(t, h, s.Open(t, url), "asked", election.Options{ID: "a"})
	first := await(t, s, "a is elected", a.events.elected)
	<-a.events.campaign
	b := s.calm().run(t, h, s.Open(t, url), "asked", election.Options{ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "asked", "b")

	asked := s.clock.Now()
	s.ask(t, op, election.Request{By: "the suite", Token: first})
	if reason := await(t, s, "a honours the request", a.events.lost); reason != election.ReasonResigned {
		t.Errorf("a ended for the reason %v", reason)
	}
	leader, other := b, a
	s.awaitView(t, url, "asked", func(v election.View) bool {
		over := v.Leader != "" && v.Token > first
		if over && v.Leader == "a" { // nobody is preferred where no waiters are seen
			leader, other = a, b
		}
		return over
	})
	s.recorder.sampleMs(FigureRequest, s.clock.Now().Sub(asked))
	// A request to a leadership that is over does not concern this one.
	_ = op.Ask(s.within(t), "asked", election.Request{Token: first})
	if _, nominates := op.(election.Nominator); nominates {
		s.askTransfer(t, op, url, leader, other)
		leader, other = other, leader
		other.end(t, s)
		s.askAgain(t, h, op, url, leader)
	} else {
		other.end(t, s)
	}
	leader.end(t, s)
	s.verify(t, h, -1)
}

// askAgain asks for a transfer to a candidate that cannot warm up, and repeats the
// very same request when it can.
func (s Suite) askAgain(t *testing.T, h *history, op election.Operator, url string, leader *member) {
	t.Helper()
	w := warmer{clock: s.clock, fail: errors.New("it cannot get ready")}
	broken := s.calm().run(t, h, s.Open(t, url), "asked", election.Options{ID: "c", Warm: w.warm})
	await(t, s, "c campaigns", broken.events.campaign)
	s.awaitWaiting(t, url, "asked", "c")
	request, in := election.Request{By: "the suite", Transfer: "c"}, s.within(t)
	for before := leader.events.count(election.EventNominated); leader.events.count(election.EventNominated) == before; {
		s.ask(t, op, request) // again where waiters are not seen
		time.Sleep(s.Lease / 4)
		if in.Err() != nil {
			t.Fatal("c was never nominated")
		}
	}
	w.failWith(nil)
	s.ask(t, op, request)
	if reason := await(t, s, "the leader honours the same request again", leader.events.lost); reason != election.ReasonTransferred {
		t.Errorf("the leader ended for the reason %v", reason)
	}
	await(t, s, "c is elected", broken.events.elected)
	broken.end(t, s)
}

// ask makes a request in the election "asked".
func (s Suite) ask(t testing.TB, op election.Operator, request election.Request) {
	t.Helper()
	if err := op.Ask(s.within(t), "asked", request); err != nil {
		t.Fatalf("ask for %+v: %v", request, err)
	}
}

// askTransfer asks for the other candidate until the store knows of it.
func (s Suite) askTransfer(t testing.TB, op election.Operator, url string, leader, other *member) {
	t.Helper()
	s.awaitWaiting(t, url, "asked", other.elector.ID())
	s.ask(t, op, election.Request{By: "the suite", Transfer: other.elector.ID()})
	if reason := await(t, s, "the leader honours the request", leader.events.lost); reason != election.ReasonTransferred {
		t.Errorf("the leader ended for the reason %v", reason)
	}
	s.awaitView(t, url, "asked", func(v election.View) bool { return v.Leader == other.elector.ID() })
}

// testHistory lets leaderships end in all ways, and compares what is remembered.
func testHistory(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	op := s.operator(t, url)
	var want []election.Tenure
	ended := func(id string, token election.Token, reason string) {
		want = append(want, election.Tenure{Leader: id, Token: token, Reason: reason})
	}

	var token election.Token
	elector := s.calm().newElector(t, s.Open(t, url), "history", election.Options{Once: true, ID: "a",
		OnEvent: func(e election.Event) { token = max(token, e.Token) }})
	if err := elector.Run(s.within(t), h.leads(atOnce)); err != nil {
		t.Fatal(err)
	}
	ended("a", token, election.ReasonReturned.String())

	b := s.calm().run(t, h, s.Open(t, url), "history", election.Options{Once: true, ID: "b"})
	token = await(t, s, "b is elected", b.events.elected)
	if err := b.elector.Resign(s.within(t)); err != nil {
		t.Fatal(err)
	}
	await(t, s, "b ends", b.ended)
	ended("b", token, election.ReasonResigned.String())

	if _, nominates := op.(election.Nominator); nominates {
		c := s.calm().run(t, h, s.Open(t, url), "history", election.Options{Once: true, ID: "c"})
		token = await(t, s, "c is elected", c.events.elected)
		d := s.calm().run(t, h, s.Open(t, url), "history", election.Options{Once: true, ID: "d"})
		s.transfer(t, c, "d")
		ended("c", token, election.ReasonTransferred.String())
		token = await(t, s, "d is elected", d.events.elected)
		await(t, s, "c ends", c.ended)
		d.end(t, s)
		ended("d", token, election.ReasonStopped.String())
	}
	if !s.InMemory {
		e := s.startProcess(t, h, order{URL: url, Election: "history", ID: "e"})
		token = e.awaitElected()
		// Where members inform each other, a leader that is killed at once has informed nobody.
		for view, err := range op.(election.Backend).Observe(s.within(t), "history") {
			if err == nil && view.Token == token {
				break
			}
		}
		e.kill()
		ended("e", token, election.ReasonExpired.String())
	}
	f := s.calm().run(t, h, s.Open(t, url), "history", election.Options{Once: true, ID: "f"})
	ended("f", await(t, s, "f is elected", f.events.elected), "")
	got, err := op.History(s.within(t), "history")
	if err != nil {
		t.Fatal(err)
	}
	compareHistory(t, got, want)
	f.end(t, s)
	s.verify(t, h, len(want))
}

func compareHistory(t *testing.T, got, want []election.Tenure) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d leaderships are remembered, expected %d:\n%+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Leader != w.Leader || g.Token != w.Token || g.Reason != w.Reason {
			t.Errorf("leadership %d: remembered as %+v, expected %+v", i, g, w)
		}
		last := i == len(want)-1
		if g.Since.IsZero() || g.Until.IsZero() != last || !last && g.Until.Before(g.Since) {
			t.Errorf("leadership %d: from %v until %v", i, g.Since, g.Until)
		}
		if i > 0 && g.Since.Before(got[i-1].Until) {
			t.Errorf("leadership %d began at %v, and the one before it ended at %v", i, g.Since, got[i-1].Until)
		}
	}
}

func testLongHistory(t *testing.T, s Suite) {
	url := s.URL(t)
	backend, op := s.Open(t, url), s.operator(t, url)
	if got, err := op.History(s.within(t), "none"); err != nil || len(got) != 0 {
		t.Errorf("history of an election that never was: %v, %v", got, err)
	}
	const elections = election.HistoryMin + 8
	var want []election.Token
	for i := range elections {
		grant := s.acquire(t, backend, s.newClaim("long", fmt.Sprint("c", i)))
		want = append(want, grant.Token)
		grant.Ended = election.ReasonReturned
		s.release(t, backend, grant)
	}
	got, err := op.History(s.within(t), "long")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < election.HistoryMin {
		t.Fatalf("%d leaderships are remembered, expected %d or more", len(got), election.HistoryMin)
	}
	want = want[len(want)-min(len(want), len(got)):]
	for i, change := range got {
		if change.Token != want[i] || change.Reason != election.ReasonReturned.String() {
			t.Errorf("leadership %d: %+v, expected token %d", i, change, want[i])
		}
	}
}

func testElections(t *testing.T, s Suite) {
	url := s.URL(t)
	backend, op := s.Open(t, url), s.operator(t, url)
	if names, err := op.Elections(s.within(t)); err != nil || len(names) != 0 {
		t.Errorf("elections of an empty store: %q, %v", names, err)
	}
	for _, name := range oddNames {
		s.release(t, backend, s.acquire(t, backend, s.newClaim(name, "me")))
		if names, err := op.Elections(s.within(t)); err != nil || !slices.Contains(names, name) {
			t.Errorf("elections %q, %v, without %q, which has just been held", names, err, name)
		}
	}
	held := s.acquire(t, backend, s.newClaim("held", "me"))
	defer s.release(t, backend, held)
	names, err := op.Elections(s.within(t))
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(oddNames), "held")
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("elections %q, expected %q", names, want)
	}
}
