package electiontest

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// These strike the store, or the link from one candidate to it: answers that take seconds, and
// answers that never arrive although the work is done.

// Trouble makes the store, as one candidate sees it, slow or mute. Methods may be called at any
// time.
type Trouble interface {
	// Slow delays every answer of the store by this much, as if its disk took that long to sync.
	Slow(by time.Duration)
	// Mute makes the store carry out requests without confirming them.
	Mute()
	// Heal ends both.
	Heal()
}

// slowly is how long a very slow disk takes for an answer: longer than the lease.
func (s Suite) slowly() time.Duration { return s.Lease + min(s.Lease/2, time.Second) }

// troubled opens a backend whose store can be disturbed.
func (s Suite) troubled(t testing.TB, url string) (election.Backend, Trouble) {
	t.Helper()
	if s.OpenTroubled != nil {
		return s.OpenTroubled(t, url)
	}
	if s.Proxy != nil {
		through, link := s.Proxy(t, url)
		t.Cleanup(link.Heal)
		return s.Open(t, through), linkTrouble{link}
	}
	faulty := NewFaulty(s.Open(t, url))
	return faulty, callTrouble{faulty}
}

// linkTrouble disturbs the traffic over a link.
type linkTrouble struct{ Link }

func (l linkTrouble) Slow(by time.Duration) { l.Delay(0, by) }
func (l linkTrouble) Mute()                 { l.CutReplies() }

// callTrouble disturbs the calls of a backend where there is no link.
type callTrouble struct{ faulty *Faulty }

var operations = []string{"acquire", "renew", "release", "nominate"}

func (c callTrouble) Slow(by time.Duration) {
	for _, operation := range operations {
		c.faulty.Delay(operation, by)
	}
}

func (c callTrouble) Mute() {
	for _, operation := range operations {
		c.faulty.LoseReplies(operation, 1<<30)
	}
}

func (c callTrouble) Heal() {
	c.Slow(0)
	for _, operation := range operations {
		c.faulty.LoseReplies(operation, 0)
	}
}

// testSlow makes every answer take longer than a lease while a leader resigns and for some
// leases more, first for two candidates and then for one of them: a leader then leads by right.
// When the disk is fast again, both get their turn, and no grant is left without a holder.
func testSlow(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backendA, troubleA := s.troubled(t, url)
	backendB, troubleB := s.troubled(t, url)
	a := s.run(t, h, backendA, "slow", election.Options{ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	b := s.run(t, h, backendB, "slow", election.Options{ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "slow", "b")
	troubleA.Slow(s.slowly())
	troubleB.Slow(s.slowly())
	_ = a.elector.Resign(s.within(t)) // it may have lost the lead, or learn of the request too late
	time.Sleep(2 * s.slowly())        // how long the fault lasts

	troubleB.Heal()
	_ = a.elector.Resign(s.within(t))
	s.awaitView(t, url, "slow", func(v election.View) bool { return v.Leader == "b" })
	_ = b.elector.Resign(s.within(t)) // the next candidate's answer arrives too late
	time.Sleep(2 * s.slowly())
	troubleA.Heal()
	s.recorder.sampleMs(FigureSlow, s.inTurn(t, h, url, "slow", a, b))
	s.verify(t, h, -1)
}

// testMute mutes the store for a leader and then for a waiter: the leader stops in time, or
// leads by right, and a waiter keeps nobody from leading, although the store does what it asks.
func testMute(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend, trouble := s.troubled(t, url)
	a := s.run(t, h, backend, "mute", election.Options{ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	<-a.events.campaign
	b := s.run(t, h, s.Open(t, url), "mute", election.Options{ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "mute", "b")
	trouble.Mute()
	select {
	case <-b.events.elected:
	case <-time.After(3 * s.Lease): // a leader needs no confirmation here
		_ = a.elector.Resign(s.within(t))
		await(t, s, "b is elected", b.events.elected)
	}
	trouble.Heal()
	await(t, s, "a campaigns again", a.events.campaign)
	s.awaitWaiting(t, url, "mute", "a")

	trouble.Mute()
	c := s.run(t, h, s.Open(t, url), "mute", election.Options{Once: true, ID: "c"})
	await(t, s, "c campaigns", c.events.campaign)
	muted := s.clock.Now()
	b.end(t, s)
	await(t, s, "c is elected, after one who is told nothing", c.events.elected)
	s.recorder.sampleMs(FigureMute, s.clock.Now().Sub(muted))
	trouble.Heal()
	s.inTurn(t, h, url, "mute", c, a)
	s.verify(t, h, -1)
}

// inTurn ends the leader, so that the other member leads, ends that one, too, and returns how
// long it took until a new member led after them: neither has left anything behind.
func (s Suite) inTurn(t *testing.T, h *history, url, name string, leader, other *member) time.Duration {
	t.Helper()
	began := s.clock.Now()
	leader.end(t, s)
	s.awaitView(t, url, name, func(v election.View) bool { return v.Leader == other.elector.ID() })
	other.end(t, s)
	next := s.run(t, h, s.Open(t, url), name, election.Options{Once: true, ID: "next"})
	await(t, s, "a new candidate is elected", next.events.elected)
	next.end(t, s)
	return s.clock.Now().Sub(began)
}
