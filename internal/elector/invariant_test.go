package elector

import (
	"math/rand/v2"
	"testing"
)

// world is a store and a function that misbehave by chance: answers are lost, late or doubled,
// the clock jumps as after a suspension, functions do not end.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	m     *Machine
	nowMs int64

	late    []Event  // answers on their way, in any order
	token   uint64   // last token that the store has given
	granted Acquired // with that token
	held    uint64   // attempt that holds the store's lease, 0 for none
	heldTil int64    // when the store may give the lease to others

	running  uint64 // attempt whose function runs, 0 for none
	leads    bool
	deadline int64
	provenMs int64 // of the running attempt: when the newest request was sent whose answer has come
	promised int64 // by that answer: until when the store keeps others out
	ended    bool  // End was reported for the running function
	endedMs  int64
	stuck    bool // so was Stuck
	resigned uint64
	lastTok  uint64
	elects   int
	sick     bool            // no check has passed since too many failed
	failed   int             // checks failed in a row
	ready    map[uint64]bool // attempts whose nominee said it was ready
	finished bool
}

// TestAnyOrderOfEventsKeepsTheInvariants checks elector-L1 to elector-L9 against a store that
// gives its lease to others as soon as it may.
func TestAnyOrderOfEventsKeepsTheInvariants(t *testing.T) {
	elects := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := &world{t: t, rng: rng, m: New(Config{GraceMs: 1500, EndLimitMs: 2500, DriftPercent: 5, RetryMs: 100,
			RetryMaxMs: 1000, ReleaseMs: 800, Forever: rng.IntN(4) > 0, Seed: seed,
			HealthFailures: rng.IntN(3)})}
		w.ready = make(map[uint64]bool)
		w.sick = w.m.cfg.HealthFailures > 0
		w.step(Start{})
		for range 300 {
			w.move()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		elects += w.elects
	}
	if elects < 5000 {
		t.Fatalf("only %d leaderships in all runs: the test does not test", elects)
	}
}

func (w *world) move() {
	switch pick := w.rng.IntN(100); {
	case pick < 50 && len(w.late) > 0:
		i := w.rng.IntN(len(w.late))
		event := w.late[i]
		if w.rng.IntN(10) > 0 {
			w.late = append(w.late[:i], w.late[i+1:]...)
		}
		w.step(event)
	case pick < 80:
		w.nowMs += w.rng.Int64N(400)
		w.step(Tick{})
	case pick < 82:
		w.nowMs += w.rng.Int64N(20_000) // suspended
	case pick < 92 && w.running != 0:
		ended := FunctionEnded{Attempt: w.running}
		w.running = 0
		w.step(ended)
	case pick < 93:
		w.resigned = w.running - w.rng.Uint64N(2) // or the leadership before
		w.step(Resign{w.resigned})
	case pick < 94:
		w.step(Transfer{})
	case pick < 95:
		w.step(Hurry{w.running})
	case pick < 97 && w.m.cfg.HealthFailures > 0:
		w.check(w.rng.IntN(2) == 0)
	case pick < 98 && w.held != 0:
		gone := LossSeen{w.held}
		w.held = 0
		w.step(gone)
	case pick == 99 && w.rng.IntN(30) == 0:
		w.step(Stop{})
	}
}

// check is a health check.
func (w *world) check(passed bool) {
	w.failed++
	if passed {
		w.sick, w.failed = false, 0
	}
	w.step(Health{passed}) // what was due before the check still happens
	if w.failed >= w.m.cfg.HealthFailures {
		w.sick = true
	}
}

func (w *world) step(event Event) {
	switch e := event.(type) {
	case Nominated:
		w.ready[e.Attempt] = w.ready[e.Attempt] || e.Ready
	case Renewed:
		if e.Attempt == w.running && e.SentMs >= w.provenMs {
			w.provenMs, w.promised = e.SentMs, e.SentMs+e.LeaseMs
		}
	}
	for _, effect := range append([]Effect(nil), w.m.Step(w.nowMs, event)...) {
		w.carryOut(effect)
	}
	if w.leads && w.nowMs >= w.deadline {
		w.t.Errorf("L1: leads at %d, deadline was %d", w.nowMs, w.deadline)
	}
	if w.leads && w.deadline > w.promised {
		w.t.Errorf("L1: leads until %d, the store keeps others out until %d", w.deadline, w.promised)
	}
	if w.leads != w.m.Leads() {
		w.t.Errorf("Leads() is %v, effects say %v", w.m.Leads(), w.leads)
	}
}

func (w *world) carryOut(effect Effect) {
	switch e := effect.(type) {
	case Acquire:
		if w.sick {
			w.t.Error("L8: an unhealthy candidate campaigns")
		}
		w.acquire(e)
	case Nominate:
		w.answer(Nominated{e.Attempt, e.Nomination, w.rng.IntN(2) == 0})
	case Renew:
		if w.ended && w.nowMs >= w.endedMs+w.m.cfg.EndLimitMs {
			w.t.Error("L9: the grant of a stuck function is renewed")
		}
		w.renew(e)
	case Stuck:
		if w.stuck || !w.ended {
			w.t.Errorf("L9: stuck with ended=%v, said before=%v", w.ended, w.stuck)
		}
		w.stuck = true
	case Elect:
		if w.running != 0 || w.leads {
			w.t.Errorf("L2: elected while attempt %d still runs", w.running)
		}
		if e.Token <= w.lastTok {
			w.t.Errorf("L5: token %d after %d", e.Token, w.lastTok)
		}
		w.running, w.leads, w.ended, w.stuck, w.lastTok = e.Attempt, true, false, false, e.Token
		w.deadline = e.DeadlineMs
		w.provenMs, w.promised = w.granted.SentMs, w.granted.SentMs+w.granted.LeaseMs
		w.elects++
	case Extend:
		w.deadline = e.DeadlineMs
	case End:
		if w.ended {
			w.t.Errorf("L2: second End")
		}
		w.ended, w.endedMs = true, w.nowMs
		if e.Reason == Resigned && w.resigned != e.Attempt {
			w.t.Error("a leadership was given up that nobody asked to resign")
		}
		if e.Reason == Transferred && !w.ready[e.Attempt] {
			w.t.Error("L7: handed over to one that was not ready")
		}
	case Lost:
		if !w.leads || !w.ended {
			w.t.Errorf("L2: Lost with leads=%v ended=%v", w.leads, w.ended)
		}
		w.leads = false
	case Release:
		if w.running == e.Attempt {
			w.t.Errorf("L3: released while the function runs")
		}
		if w.held == e.Attempt {
			w.held = 0
		}
		w.answer(Released{e.Attempt})
	case Finish:
		if w.running != 0 || w.finished {
			w.t.Errorf("finished with function %d running, twice=%v", w.running, w.finished)
		}
		w.finished = true
	}
}

// acquire lets the store decide now; the answer may be lost.
func (w *world) acquire(e Acquire) {
	if w.held != 0 && w.nowMs < w.heldTil || w.rng.IntN(5) == 0 {
		w.answer(AcquireFailed{Attempt: e.Attempt})
		return
	}
	w.token++
	leaseMs := w.leaseMs()
	w.held, w.heldTil = e.Attempt, w.nowMs+leaseMs
	w.granted = Acquired{e.Attempt, w.token, w.nowMs, leaseMs}
	w.answer(w.granted)
}

func (w *world) renew(e Renew) {
	if w.held != e.Attempt || w.nowMs >= w.heldTil {
		w.answer(RenewFailed{e.Attempt, e.Renewal, true})
		return
	}
	leaseMs := w.leaseMs()
	w.heldTil = w.nowMs + leaseMs
	w.answer(Renewed{e.Attempt, e.Renewal, w.nowMs, leaseMs, w.rng.IntN(3) == 0})
}

// leaseMs is the lease that the store gives now, which changes at random.
func (w *world) leaseMs() int64 {
	if w.rng.IntN(4) == 0 {
		return 1500 + w.rng.Int64N(4500)
	}
	return 4000
}

// answer puts an answer on its way, unless it is lost. The machine cannot do without some
// answers: instead of those comes a failure, as from the shell.
func (w *world) answer(event Event) {
	if w.rng.IntN(6) > 0 {
		w.late = append(w.late, event)
		return
	}
	if e, ok := event.(Acquired); ok {
		w.late = append(w.late, AcquireFailed{Attempt: e.Attempt})
	}
}
