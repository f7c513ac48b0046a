package electiontest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// warmer is a candidate's Options.Warm that counts its calls and can fail.
type warmer struct {
	clock clock.Clock

	mu    sync.Mutex
	calls int
	fail  error
	last  clock.Instant // when the last call returned nil
}

// warmFor is how long warming up takes: long enough to be seen.
const warmFor = 30 * time.Millisecond

func (w *warmer) warm(context.Context) error {
	time.Sleep(warmFor)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.fail == nil {
		w.last = w.clock.Now()
	}
	return w.fail
}

func (w *warmer) failWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

func (w *warmer) state() (calls int, last clock.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls, w.last
}

// transfer hands over to a candidate that has reported that it campaigns; the store may learn of it
// a little later.
func (s Suite) transfer(t testing.TB, from *member, to string) {
	t.Helper()
	ctx := s.within(t)
	for {
		err := from.elector.TransferTo(ctx, to)
		if err == nil {
			return
		}
		if !errors.Is(err, election.ErrNoCandidate) || ctx.Err() != nil {
			t.Fatalf("transfer from %s to %s: %v", from.elector.ID(), to, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// handOver returns once the candidate to leads: whenever from leads, it hands over to it.
func (s Suite) handOver(t testing.TB, from, to *member) {
	t.Helper()
	for ctx := s.within(t); !to.elector.IsLeader(); time.Sleep(10 * time.Millisecond) {
		err := from.elector.TransferTo(ctx, to.elector.ID())
		if ctx.Err() != nil {
			t.Fatalf("transfer from %s to %s: %v", from.elector.ID(), to.elector.ID(), err)
		}
	}
}

// testTransfer hands over back and forth between two candidates while a third one waits before
// both.
func testTransfer(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	warmers := [2]*warmer{{clock: s.clock}, {clock: s.clock}}
	var members [2]*member
	start := func(i int, id string) {
		members[i] = s.calm().run(t, h, s.Open(t, url), "transfer",
			election.Options{ID: id, Warm: warmers[i].warm})
	}
	start(0, "a")
	await(t, s, "a is elected", members[0].events.elected)
	await(t, s, "a has campaigned", members[0].events.campaign)
	between := s.calm().run(t, h, s.Open(t, url), "transfer", election.Options{Once: true, ID: "between"})
	s.awaitWaiting(t, url, "transfer", "between")
	start(1, "c")
	const rounds = 6
	for i := range rounds {
		from, to := members[i%2], members[1-i%2]
		await(t, s, "the next one campaigns", to.events.campaign)
		s.transfer(t, from, to.elector.ID())
		await(t, s, "the chosen one is elected", to.events.elected)
		if reason := await(t, s, "the old one loses", from.events.lost); reason != election.ReasonTransferred {
			t.Errorf("round %d: the old leader lost for the reason %v", i, reason)
		}
		calls, warm := warmers[1-i%2].state()
		if calls != i/2+1 {
			t.Errorf("round %d: warmed up %d times, expected %d", i, calls, i/2+1)
		}
		if old := h.sorted()[i]; warm == 0 || old.to < warm {
			t.Errorf("round %d: the old leader ended %v before the new one had warmed up", i, warm.Sub(old.to))
		}
	}
	between.end(t, s)
	members[1].end(t, s)
	members[0].end(t, s)
	s.verify(t, h, rounds+1)
	for _, gap := range h.gaps() {
		s.recorder.sampleMs(FigureTransfer, gap)
		if gap > s.Lease {
			t.Errorf("nobody led for %v at a transfer", gap)
		}
	}
}

func testTransferToNobody(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	a := s.calm().run(t, h, s.Open(t, url), "nobody", election.Options{Once: true, ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	b := s.calm().run(t, h, s.Open(t, url), "nobody", election.Options{Once: true, ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "nobody", "b")
	for _, id := range []string{"nobody", "a"} {
		if err := a.elector.TransferTo(s.within(t), id); !errors.Is(err, election.ErrNoCandidate) {
			t.Errorf("transfer to %q returned %v", id, err)
		}
	}
	if err := b.elector.TransferTo(s.within(t), "a"); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("a transfer by one that does not lead returned %v", err)
	}
	if a.events.count(election.EventLost) != 0 {
		t.Error("the leader has lost by it")
	}
	b.end(t, s)
	a.end(t, s)
	s.verify(t, h, 1)
}

// testNomineeDies kills the chosen candidate while it warms up, and another one that has reported
// that it is ready.
func testNomineeDies(t *testing.T, s Suite) {
	if s.InMemory {
		testNomineeLeaves(t, s)
		return
	}
	h, url := s.newHistory(), s.URL(t)
	backend := s.Open(t, url)
	leader := s.calm().run(t, h, backend, "dying", election.Options{Once: true, ID: "leader"})
	await(t, s, "the leader is elected", leader.events.elected)
	b := s.startProcess(t, h, order{URL: url, Election: "dying", ID: "b", WarmFor: -1})
	b.awaitWaiting(url, "dying")
	ended := make(chan error, 1)
	go func() {
		for {
			err := leader.elector.TransferTo(s.within(t), "b")
			if !errors.Is(err, election.ErrNoCandidate) || len(b.warming) > 0 {
				ended <- err
				return
			}
		}
	}()
	await(t, s, "b warms up", b.warming)
	b.warming <- struct{}{} // for the loop above
	b.kill()
	if err := await(t, s, "the transfer to a dead candidate ends", ended); err == nil {
		t.Error("the transfer to a dead candidate has succeeded")
	}
	if leader.events.count(election.EventLost) != 0 {
		t.Error("the leader has lost by it")
	}
	leader.end(t, s)
	s.verify(t, h, 1)
	s.nomineeDiesReady(t)
}

// nomineeDiesReady kills a nominee that is ready before it can get the grant.
func (s Suite) nomineeDiesReady(t *testing.T) {
	h, url := s.newHistory(), s.URL(t)
	backend := s.Open(t, url)
	grant := s.acquire(t, backend, s.newClaim("ready", "leader"))
	c := s.startProcess(t, h, order{URL: url, Election: "ready", ID: "c"})
	c.awaitWaiting(url, "ready")
	s.nominate(t, backend, grant, "c")
	c.kill()
	d := s.startProcess(t, h, order{URL: url, Election: "ready", ID: "d"})
	await(t, s, "d campaigns", d.campaigning)
	s.release(t, backend, grant)
	if token := d.awaitElected(); token <= grant.Token {
		t.Errorf("token %d after %d", token, grant.Token)
	}
	d.stop()
	s.verify(t, h, 1)
}

// nominate nominates a candidate that campaigns.
func (s Suite) nominate(t testing.TB, b election.Backend, grant election.Grant, id string) {
	t.Helper()
	ctx := s.within(t)
	for {
		err := b.(election.Nominator).Nominate(ctx, grant, id)
		if err == nil {
			return
		}
		if !errors.Is(err, election.ErrNoCandidate) || ctx.Err() != nil {
			t.Fatalf("nominate %s: %v", id, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// testNomineeLeaves is testNomineeDies where there are no processes: the nominee withdraws instead.
func testNomineeLeaves(t *testing.T, s Suite) {
	url := s.URL(t)
	backend := s.Open(t, url)
	grant := s.acquire(t, backend, s.newClaim("leaving", "leader"))
	b, c := s.newClaim("leaving", "b"), s.newClaim("leaving", "c")
	_, stop := s.acquiring(t, s.Open(t, url), b)
	s.awaitWaiting(t, url, "leaving", "b")
	s.nominate(t, backend, grant, "b")
	stop()
	s.release(t, backend, election.Grant{Claim: b})
	granted, _ := s.acquiring(t, s.Open(t, url), c)
	s.release(t, backend, grant)
	s.release(t, backend, await(t, s, "c is granted", granted))
}

// testNomineeNotReady makes the chosen candidate fail to warm up, and chooses it again when it can.
func testNomineeNotReady(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	failing := &warmer{clock: s.clock, fail: errors.New("no cache")}
	a := s.calm().run(t, h, s.Open(t, url), "failing", election.Options{Once: true, ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	b := s.calm().run(t, h, s.Open(t, url), "failing", election.Options{Once: true, ID: "b", Warm: failing.warm})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "failing", "b")
	calls := 0
	for calls == 0 { // until the store knows of b
		err := a.elector.TransferTo(s.within(t), "b")
		if calls, _ = failing.state(); err == nil || calls == 0 && !errors.Is(err, election.ErrNoCandidate) {
			t.Fatalf("after %d calls of Warm the transfer returned %v", calls, err)
		}
	}
	if a.events.count(election.EventLost) != 0 || b.events.count(election.EventElected) != 0 {
		t.Error("a leadership has changed by it")
	}
	failing.failWith(nil)
	s.transfer(t, a, "b")
	await(t, s, "b is elected", b.events.elected)
	b.end(t, s)
	s.verify(t, h, 2)
}

func testPriority(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	a := s.calm().run(t, h, s.Open(t, url), "priority", election.Options{ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	for round := range 2 {
		warm := &warmer{clock: s.clock}
		b := s.calm().run(t, h, s.Open(t, url), "priority", election.Options{Once: true, ID: "b", Priority: 10, Warm: warm.warm})
		await(t, s, "the preferred one is elected", b.events.elected)
		if reason := await(t, s, "the other gives way", a.events.lost); reason != election.ReasonTransferred {
			t.Errorf("the other gave way for the reason %v", reason)
		}
		if calls, _ := warm.state(); calls != 1 {
			t.Errorf("round %d: the preferred one warmed up %d times", round, calls)
		}
		c := s.calm().run(t, h, s.Open(t, url), "priority", election.Options{Once: true, ID: "c", Priority: 5})
		await(t, s, "c campaigns", c.events.campaign)
		s.awaitWaiting(t, url, "priority", "c")
		c.end(t, s)
		b.end(t, s)
		await(t, s, "a is elected again", a.events.elected)
	}
	a.end(t, s)
	s.verify(t, h, 5)
}
