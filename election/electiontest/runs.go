package electiontest

import (
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// These strike `conclave run` itself: its guardian, its own process, and the files that it writes
// to. Its command ignores SIGTERM, and must not act at the same time as the next leader's.

// guarded requires a system on which a run can be struck: its guardian is found in /proc.
func guarded(s Suite, traits election.Traits, b election.Backend) string {
	if why := processes(s, traits, b); why != "" {
		return why
	}
	return unless(runtime.GOOS == "linux", "only Linux shows whose guardian is which")
}

// runs is a test with runs: their store, and what their commands do.
type runs struct {
	t    *testing.T
	s    Suite
	url  string
	name string
	acts *acts
}

func (s Suite) newRuns(t *testing.T, name string) *runs {
	t.Helper()
	return &runs{t: t, s: s, url: s.URL(t), name: name, acts: s.newActs(t)}
}

// run is a process that runs its command while it leads, with functions that cut and heal its link
// to the store.
type run struct {
	*process
	cut, heal func()
}

// start starts a run. If there is a link to the store, cut partitions it; otherwise cut makes the
// run's calls of the store hang, and others lead once it is healed.
func (r *runs) start(id string, unread bool) *run {
	r.t.Helper()
	o := order{URL: r.url, Election: r.name, ID: id, Acts: r.acts.path, Unread: unread}
	if r.s.Proxy != nil {
		through, link := r.s.Proxy(r.t, r.url)
		r.t.Cleanup(link.Heal)
		o.URL = through
		return &run{r.s.startProcess(r.t, &history{}, o), link.Cut, link.Heal}
	}
	p := r.s.startProcess(r.t, &history{}, o)
	return &run{p, func() { p.ask("cut") }, func() { p.ask("heal") }}
}

// lead starts a run that leads, and another one that waits; it returns the token. Where waiters are
// seen, a run that has lost the lead to the other one on a busy machine first gets it back.
func (r *runs) lead(unread bool) (a, b *run, token election.Token) {
	r.t.Helper()
	a = r.start("a", unread)
	token = r.acts.awaitBy("a", 0, nil).token
	b = r.start("b", false)
	for behind := !r.s.recorder.report.Traits.Waiters; !behind; {
		r.s.awaitView(r.t, r.url, r.name, func(v election.View) bool {
			behind, token = v.Leader == "a" && v.Waits("b"), v.Token
			return behind || v.Leader == "b" && v.Waits("a")
		})
		if !behind {
			b.ask("resign")
		}
	}
	return a, b, r.acts.awaitBy("a", token-1, nil).token
}

// partition partitions the leader a, and returns the token with which b acts next.
func (r *runs) partition(a *run, token election.Token, figure string) election.Token {
	r.t.Helper()
	strike := func() {
		a.cut()
		if r.s.Proxy == nil {
			r.acts.awaitSilence("a")
			a.heal()
		}
	}
	struck := clock.Now()
	strike()
	next := r.awaitNext("a", "b", token, struck, figure, strike)
	if r.s.Proxy != nil {
		a.heal()
	}
	return next
}

// awaitNext returns the token with which the next candidate acts, and fails if the command of the
// last one acts at the same time. Again is the same as in awaitBy.
func (r *runs) awaitNext(last, next string, token election.Token, struck clock.Instant, figure string, again func()) election.Token {
	r.t.Helper()
	b := r.acts.awaitBy(next, token, again)
	ended := r.acts.last(last, token)
	r.s.recorder.sampleMs(figure, ended.Sub(struck))
	if ended > b.from {
		r.t.Fatalf("the command of %s led beside that of %s, for %v: it ended %v after the fault", last, next, ended.Sub(b.from), ended.Sub(struck))
	}
	return b.token
}

// testFrozenGuardian pauses the guardian of a leader that is then partitioned, and the guardian of
// the next leader, which then resigns: each run ends its command itself.
func testFrozenGuardian(t *testing.T, s Suite) {
	r := s.newRuns(t, "guardian")
	a, b, token := r.lead(false)
	freezeGuardian(t, a)
	token = r.partition(a, token, FigureGuardian)
	if s.recorder.report.Traits.Waiters {
		s.awaitView(t, r.url, r.name, func(v election.View) bool { return v.Waits("a") || v.Leader == "a" })
	}
	freezeGuardian(t, b)
	resign := func() { b.ask("resign") }
	resign()
	r.acts.awaitBy("a", token, resign)
	b.stop()
	a.stop()
	s.verify(t, r.acts.history(), -1)
}

// freezeGuardian pauses the guardian of a run, unless the run has just lost the lead on a busy
// machine.
func freezeGuardian(t *testing.T, r *run) {
	t.Helper()
	if pid := r.guardian(); pid != 0 {
		freeze(t, pid)
	}
}

// testFrozenRun pauses a leader's own process but not its guardian, which ends in time both the
// command and the process, which would otherwise keep the election forever.
func testFrozenRun(t *testing.T, s Suite) {
	r := s.newRuns(t, "frozen")
	a, b, token := r.lead(false)
	s.freeze(t, a.process, r.url)
	frozen := clock.Now()
	r.awaitNext("a", "b", token, frozen, FigureFrozenRun, nil)
	a.thaw()
	b.stop()
	s.verify(t, r.acts.history(), -1)
}

// testFullPipes lets a leader write to pipes that nobody reads, including a log of all events, and
// partitions it. When somebody reads again, it goes on.
func testFullPipes(t *testing.T, s Suite) {
	r := s.newRuns(t, "full")
	a, b, token := r.lead(true)
	token = r.partition(a, token, FigureFullPipes)
	a.drain()
	b.stop() // a waits, or leads again if b has lost the lead on a busy machine
	r.acts.awaitBy("a", token, nil)
	a.stop()
	s.verify(t, r.acts.history(), -1)
}
