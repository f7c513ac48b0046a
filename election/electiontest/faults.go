package electiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

func testKilled(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	a := s.startProcess(t, h, order{URL: url, Election: "killed", ID: "a"})
	first := a.awaitElected()
	b := s.startProcess(t, h, order{URL: url, Election: "killed", ID: "b"})
	b.awaitWaiting(url, "killed")
	a.kill()
	killed := s.clock.Now()
	second := b.awaitElected()
	took := s.clock.Now().Sub(killed)
	s.recorder.sampleMs(FigureKill, took)
	if took > s.handover() {
		t.Errorf("the handover took %v with a lease of %v", took, s.Lease)
	}
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	b.stop()
	s.verify(t, h, 2)
}

// testKilledAgain kills each holder a few moments after its election, the first one at once.
func testKilledAgain(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	rounds := 20
	if s.recorder.report.Traits.Expires {
		rounds = 3 // each costs a lease
	}
	var last election.Token
	for i := range rounds {
		p := s.startProcess(t, h, order{URL: url, Election: "again", ID: fmt.Sprint("p", i)})
		token := p.awaitElected()
		if token <= last {
			t.Fatalf("round %d: token %d after %d", i, token, last)
		}
		last = token
		time.Sleep(time.Duration(i) * time.Millisecond)
		p.kill()
	}
	s.verify(t, h, rounds)
}

// testFrozen pauses the leader until its lease is over. Where leases expire, the other candidate
// leads meanwhile; where they do not, it leads after the first one resumes. In both cases, the
// paused candidate must not lead for one moment longer.
func testFrozen(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	a := s.startProcess(t, h, order{URL: url, Election: "frozen", ID: "a"})
	first := a.awaitElected()
	b := s.startProcess(t, h, order{URL: url, Election: "frozen", ID: "b"})
	b.awaitWaiting(url, "frozen")
	s.freeze(t, a, url)
	if s.recorder.report.Traits.Expires {
		if second := b.awaitElected(); second <= first {
			t.Errorf("token %d after %d", second, first)
		}
		a.thaw()
	} else {
		time.Sleep(3 * s.Lease)
		a.thaw()
		b.awaitElected()
	}
	b.stop()
	a.awaitElected() // it campaigns again
	a.stop()
	s.verify(t, h, 3)
}

// freeze stops a candidate at a moment when it does not block the store (Suite.Held).
func (s Suite) freeze(t *testing.T, p *process, url string) {
	t.Helper()
	for p.freeze(); s.Held != nil && s.Held(t, url); p.freeze() {
		for p.thaw(); s.Held(t, url); { // which gives it time
		}
	}
}

// testResigned lets two candidates resign in turn.
func testResigned(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	leader := s.startProcess(t, h, order{URL: url, Election: "resigned", ID: "a"})
	token := leader.awaitElected()
	<-leader.campaigning
	other := s.startProcess(t, h, order{URL: url, Election: "resigned", ID: "b"})
	const rounds = 5
	waiting := false
	lost := 0 // leaderships that ended by themselves before a resignation
	for done := 0; done < rounds; {
		if !waiting {
			await(t, s, other.id+" campaigns", other.campaigning)
		}
		handed := false
		if s.awaitBehind(t, url, "resigned", leader.id, token, other.id) {
			leader.ask("resign")
			refused := await(t, s, "the leader has resigned", leader.answers)
			handed = refused == ""
			if !handed && !strings.Contains(refused, election.ErrNotLeader.Error()) {
				t.Fatalf("resign: %s", refused)
			}
		}
		if handed {
			done++
		} else if lost++; lost > rounds { // its store did not answer within the lease, as on a busy disk
			t.Fatalf("%d leaderships have ended by themselves", lost)
		}
		var next *process
		next, token = s.nextOf(t, leader, other, handed)
		if waiting = next == leader; !waiting {
			leader, other = other, leader
		}
	}
	leader.stop()
	other.stop()
	s.verify(t, h, -1)
	for _, gap := range h.gaps() {
		s.recorder.sampleMs(FigureResign, gap)
	}
}

// awaitBehind returns true once the leader with the token knows of the waiter, where that can be
// seen, and false once that leadership is seen to be over. Between two leaders a view shows all
// waiters, and an observer that lags shows an earlier leadership of the same candidate.
func (s Suite) awaitBehind(t *testing.T, url, name, leader string, token election.Token, waits string) (leads bool) {
	t.Helper()
	if !s.recorder.report.Traits.Waiters {
		return true
	}
	s.awaitView(t, url, name, func(v election.View) bool {
		leads = v.Token <= token
		return !leads || v.Token == token && v.Leader == leader && v.Waits(waits)
	})
	return leads
}

// nextOf returns which of two candidates is elected next, and its token. Where waiters are seen
// and handed is true, it must be the waiter.
func (s Suite) nextOf(t *testing.T, resigned, waits *process, handed bool) (*process, election.Token) {
	t.Helper()
	select {
	case token := <-waits.elected:
		return waits, token
	case token := <-resigned.elected:
		if handed && s.recorder.report.Traits.Waiters {
			t.Error("the leader that resigned was elected again before the waiter")
		}
		<-resigned.campaigning
		return resigned, token
	case <-time.After(s.patience()):
		t.Fatal("nobody is elected after a resignation")
		return nil, 0
	}
}

func testStoppedWaiter(t *testing.T, s Suite) {
	url := s.URL(t)
	a, b := s.Open(t, url), s.Open(t, url)
	held := s.acquire(t, a, s.newClaim("waiter", "a"))
	claim := s.newClaim("waiter", "b")
	granted, stop := s.acquiring(t, b, claim)
	s.awaitWaiting(t, url, "waiter", "b")
	stop()
	if grant := await(t, s, "Acquire honours its context", granted); grant.Token != 0 {
		t.Fatal("granted beside a holder")
	}
	s.release(t, b, election.Grant{Claim: claim})
	s.release(t, a, held)
	s.awaitNobody(t, url, "waiter")
	s.release(t, a, s.acquire(t, a, s.newClaim("waiter", "c")))
}

// testLostReplies loses the reply to a grant: the elector withdraws the claim and is elected with
// another claim, and nobody has to wait for a lease.
func testLostReplies(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend := NewFaulty(s.Open(t, url))
	backend.LoseReplies("acquire", 2)
	backend.LoseReplies("release", 1)
	elector := s.calm().newElector(t, backend, "lost", election.Options{Once: true, ID: "a"})
	if err := elector.Run(s.within(t), h.leads(atOnce)); err != nil {
		t.Fatal(err)
	}
	if calls := backend.Calls("acquire"); calls != 3 {
		t.Errorf("%d attempts, expected 3", calls)
	}
	s.verify(t, h, 1)
	s.awaitNobody(t, url, "lost")
}

// testLateReplies delays the answers of renewals until after the lease: they arrive, but must not
// count.
func testLateReplies(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend := NewFaulty(s.Open(t, url))
	elector := s.newElector(t, backend, "late", election.Options{Once: true, ID: "a"})
	err := elector.Run(s.within(t), h.leads(func(ctx context.Context, lead election.Leadership) error {
		lease := lead.Remaining() // the store's lease may be longer than the one asked for
		backend.Delay("renew", 2*lease)
		<-ctx.Done()
		if lead.Remaining() > lease/2 {
			t.Errorf("told to end %v before the deadline", lead.Remaining())
		}
		return nil
	}))
	if !errors.Is(err, election.ErrLost) {
		t.Fatalf("Run returned %v", err)
	}
	s.verify(t, h, 1)
}

// testCut partitions the leader and lets another candidate campaign.
func testCut(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend, cut, clear := s.cuttable(t, url)
	first := s.newElector(t, backend, "cut", election.Options{Once: true, ID: "a"})
	second := s.newElector(t, s.Open(t, url), "cut", election.Options{Once: true, ID: "b"})
	ran := make(chan error, 1)
	err := first.Run(t.Context(), h.leads(func(ctx context.Context, _ election.Leadership) error {
		cut()
		go func() { ran <- second.Run(t.Context(), h.leads(atOnce)) }()
		<-ctx.Done()
		return nil
	}))
	if !errors.Is(err, election.ErrLost) {
		t.Fatalf("the partitioned leader returned %v", err)
	}
	clear()
	if err := await(t, s, "somebody leads after the partitioned leader", ran); err != nil {
		t.Fatal(err)
	}
	s.verify(t, h, 2)
}

// testResignedCut resigns when the store cannot be reached (scenario-E14): this takes no longer
// than a lease, and the others lead when the lease has expired.
func testResignedCut(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend, cut, clear := s.cuttable(t, url)
	a := s.run(t, h, backend, "cut", election.Options{Once: true, ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	cut()
	began := s.clock.Now()
	if err := a.elector.Resign(s.within(t)); err != nil {
		t.Errorf("Resign returned %v", err)
	}
	if took := s.clock.Now().Sub(began); took > s.handover() {
		t.Errorf("resigning took %v", took)
	}
	await(t, s, "Run of a returns", a.ended)
	clear()
	b := s.run(t, h, s.Open(t, url), "cut", election.Options{Once: true, ID: "b"})
	await(t, s, "b is elected", b.events.elected)
	b.end(t, s)
	for _, m := range []*member{a, b} {
		if elected, lost := m.events.count(election.EventElected), m.events.count(election.EventLost); elected != 1 || lost != 1 {
			t.Errorf("%s was told %d times that it leads, %d times that it lost", m.elector.ID(), elected, lost)
		}
	}
	s.verify(t, h, 2)
}

// testOneLoss ends leaderships in many ways.
func testOneLoss(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend := NewFaulty(s.Open(t, url))
	m := s.run(t, h, backend, "loss", election.Options{ID: "a"})
	faults := []func(){
		func() { _ = m.elector.Resign(s.within(t)) },
		func() {
			backend.LoseReplies("release", 2)
			_ = m.elector.Resign(s.within(t))
		},
		func() {
			backend.LoseReplies("acquire", 1) // the next campaign
			_ = m.elector.Resign(s.within(t))
		},
		func() {
			backend.Cut()
			go func() { _ = m.elector.Resign(context.Background()) }()
		},
		func() { backend.LoseReplies("renew", 1<<30) },
	}
	for i, fault := range faults {
		await(t, s, fmt.Sprintf("a is elected before fault %d", i), m.events.elected)
		fault()
		await(t, s, fmt.Sprintf("a loses by fault %d", i), m.events.lost)
		backend.Heal()
		backend.LoseReplies("renew", 0)
	}
	await(t, s, "a is elected at last", m.events.elected)
	m.end(t, s)
	elected, lost := m.events.count(election.EventElected), m.events.count(election.EventLost)
	if elected != lost || elected != len(faults)+1 {
		t.Errorf("elected %d times, lost %d times, expected %d", elected, lost, len(faults)+1)
	}
	s.verify(t, h, elected)
}

// cuttable opens a backend that can be partitioned. Clear lets others lead where leases do not
// expire: there, only a release or a death does.
func (s Suite) cuttable(t *testing.T, url string) (backend election.Backend, cut, clear func()) {
	if s.OpenCut != nil {
		backend, cut = s.OpenCut(t, url)
		return backend, cut, func() {}
	}
	if s.Proxy != nil {
		through, link := s.Proxy(t, url)
		t.Cleanup(link.Heal) // before the backend is closed, which may have to tell the store
		return s.Open(t, through), link.Cut, func() {}
	}
	faulty := NewFaulty(s.Open(t, url))
	return faulty, faulty.Cut, func() {
		if faulty.Traits().Expires {
			return // others lead although it is partitioned
		}
		faulty.Heal()
		if err := faulty.clear(s.within(t)); err != nil {
			t.Error(err)
		}
	}
}

func testReleaseRaces(t *testing.T, s Suite) {
	h := s.newHistory()
	const candidates, turns = 8, 5
	s.compete(t, h, "races", candidates, turns)
	s.verify(t, h, candidates*turns)
}

func testHundred(t *testing.T, s Suite) {
	h := s.newHistory()
	s.compete(t, h, "hundred", 100, 1)
	s.verify(t, h, 100)
}

// compete lets candidates lead a number of times each, as briefly as possible. A leadership that
// a busy store could not end in time counts, too.
func (s Suite) compete(t *testing.T, h *history, name string, candidates, turns int) {
	url := s.URL(t)
	results := make(chan error, candidates)
	for i := range candidates {
		elector := s.newElector(t, s.Open(t, url), name, election.Options{Once: true, ID: fmt.Sprintf("c%03d", i)})
		go func() {
			for range turns {
				err := elector.Run(t.Context(), h.leads(atOnce))
				if err != nil && !errors.Is(err, election.ErrLost) {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	limit := time.After(10 * s.patience()) // it takes long where each handover wakes all candidates
	for range candidates {
		select {
		case err := <-results:
			if err != nil {
				t.Error(err)
			}
		case <-limit:
			t.Fatalf("not all have led: %d leaderships", h.len())
		}
	}
}
