package electiontest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// These strike where programs hurt themselves, with user code that blocks or panics, on every
// backend.

// testBlockedUser blocks OnEvent and OnStuck of a leader whose link is cut: its context ends in
// time all the same, and another candidate leads.
func testBlockedUser(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend, cut, clear := s.cuttable(t, url)
	let := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(let) })
	defer unblock()
	first := s.newElector(t, backend, "blocked", election.Options{Once: true, ID: "a",
		OnEvent: func(e election.Event) {
			if e.Kind == election.EventElected {
				<-let
			}
		},
		OnStuck: func(election.Leadership) { <-let },
	})
	second := s.newElector(t, s.Open(t, url), "blocked", election.Options{Once: true, ID: "b"})
	ended, ran := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- first.Run(context.WithoutCancel(t.Context()), h.leads(func(ctx context.Context, _ election.Leadership) error {
			cut()
			go func() { ran <- second.Run(context.WithoutCancel(t.Context()), h.leads(atOnce)) }()
			<-ctx.Done()
			clear()
			return nil
		}))
	}()
	if err := await(t, s, "another leads", ran); err != nil {
		t.Error(err)
	}
	unblock()
	if err := await(t, s, "Run returns", ended); !errors.Is(err, election.ErrLost) {
		t.Errorf("the partitioned leader returned %v", err)
	}
	s.verify(t, h, 2)
}

// expiring requires grants that end even if their process goes on.
func expiring(_ Suite, traits election.Traits, _ election.Backend) string {
	return unless(traits.Expires, "a grant lasts as long as its process")
}

// testHungFunction makes the function of a leader hang after it was told to end: its election is
// not handed over while the function runs, and another candidate leads when the lease is over,
// although the process goes on.
func testHungFunction(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	let := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(let) })
	defer unblock()
	led, ended := make(chan election.Leadership, 1), make(chan error, 1)
	a := s.newElector(t, s.Open(t, url), "hangs", election.Options{Once: true, ID: "a"})
	go func() {
		leads := h.leads(untilEnd)
		ended <- a.Run(context.WithoutCancel(t.Context()), func(ctx context.Context, lead election.Leadership) error {
			led <- lead
			err := leads(ctx, lead)
			<-let
			return err
		})
	}()
	lead := await(t, s, "a is elected", led)
	b := s.run(t, h, s.Open(t, url), "hangs", election.Options{Once: true, ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "hangs", "b")
	lead.Resign()
	await(t, s, "b is elected", b.events.elected)
	if lead.Err() == nil {
		t.Error("the leader whose function hangs leads on")
	}
	b.end(t, s)
	unblock()
	await(t, s, "Run returns", ended)
	s.verify(t, h, 2)
}

// testHungCheck makes the health check of a leader hang and ignore its context.
func testHungCheck(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	hang, let := make(chan struct{}), make(chan struct{})
	unblock := sync.OnceFunc(func() { close(let) })
	defer unblock()
	a := s.calm().run(t, h, s.Open(t, url), "hangs", election.Options{Once: true, ID: "a", HealthEvery: 20 * time.Millisecond,
		Health: func(context.Context) error {
			select {
			case <-hang:
				<-let
			default:
			}
			return nil
		}})
	await(t, s, "a is elected", a.events.elected)
	close(hang)
	if reason := await(t, s, "a gives up", a.events.lost); reason != election.ReasonUnhealthy {
		t.Errorf("a gave up for the reason %v", reason)
	}
	b := s.calm().run(t, h, s.Open(t, url), "hangs", election.Options{Once: true, ID: "b"})
	await(t, s, "b is elected", b.events.elected)
	b.end(t, s)
	unblock()
	s.verify(t, h, 2)
}

// testPanics makes a leader's function panic, and then a health check: Run passes on the
// function's panic after it has released the election.
func testPanics(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	first := s.calm().newElector(t, s.Open(t, url), "panics", election.Options{Once: true, ID: "a"})
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_ = first.Run(context.WithoutCancel(t.Context()), func(_ context.Context, lead election.Leadership) error {
			panic("on purpose")
		})
	}()
	if value := await(t, s, "Run panics", panicked); value == nil {
		t.Error("the panic was swallowed")
	}
	began := s.clock.Now()
	var panics sync.Once
	b := s.calm().run(t, h, s.Open(t, url), "panics", election.Options{Once: true, ID: "b", HealthEvery: 20 * time.Millisecond, HealthFailures: 1000,
		Health: func(context.Context) (err error) {
			panics.Do(func() { panic("on purpose") })
			return nil
		}})
	await(t, s, "b is elected", b.events.elected)
	if took := s.clock.Now().Sub(began); took > s.handover() {
		t.Errorf("the next one was elected %v after a panic", took)
	}
	b.end(t, s)
	if b.events.count(election.EventHealthFailed) == 0 {
		t.Error("nobody was told of the check that panicked")
	}
	s.verify(t, h, 1)
}

// testHungWarm transfers to a candidate that never becomes ready: the leader leads on, and when it
// resigns, the election goes on.
func testHungWarm(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	let := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(let) })
	defer unblock()
	a := s.calm().run(t, h, s.Open(t, url), "hung", election.Options{Once: true, ID: "a", WarmLimit: s.Lease})
	await(t, s, "a is elected", a.events.elected)
	b := s.run(t, h, s.Open(t, url), "hung", election.Options{Once: true, ID: "b", Warm: func(context.Context) error {
		<-let
		return nil
	}})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "hung", "b")
	if err := a.elector.TransferTo(s.within(t), "b"); err == nil {
		t.Error("handed over to one that is not ready")
	}
	if a.events.count(election.EventLost) != 0 {
		t.Error("the leader does not lead on")
	}
	a.end(t, s)
	await(t, s, "b is elected", b.events.elected)
	unblock()
	b.end(t, s)
	s.verify(t, h, 2)
}

// testPanicOfWarm transfers to a candidate whose warm-up panics.
func testPanicOfWarm(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	called := make(chan struct{}, toldMax)
	a := s.calm().run(t, h, s.Open(t, url), "panic", election.Options{Once: true, ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	b := s.calm().run(t, h, s.Open(t, url), "panic", election.Options{Once: true, ID: "b", Warm: func(context.Context) error {
		called <- struct{}{}
		panic("on purpose")
	}})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "panic", "b")
	for len(called) == 0 { // until the store knows of b
		if err := a.elector.TransferTo(s.within(t), "b"); err == nil {
			t.Fatal("handed over to one whose warm-up panicked")
		}
	}
	a.end(t, s)
	await(t, s, "b is elected", b.events.elected)
	b.end(t, s)
	s.verify(t, h, 2)
}

// testWarmOnce transfers twice to a candidate that is slow to become ready, and then makes it give
// up: its warm-ups never run at the same time, and none goes on after its Run has returned.
func testWarmOnce(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	var running, most, calls atomic.Int32
	a := s.calm().run(t, h, s.Open(t, url), "once", election.Options{Once: true, ID: "a", WarmLimit: s.Lease})
	await(t, s, "a is elected", a.events.elected)
	// A Run waits a quarter of its lease for a warm-up: b's lease is long, for a busy machine.
	b := s.calm().run(t, h, s.Open(t, url), "once", election.Options{Once: true, ID: "b", Lease: max(s.Lease, 8*time.Second), Warm: func(ctx context.Context) error {
		calls.Add(1)
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		<-ctx.Done()
		time.Sleep(s.Lease / 20) // it has something to clean up
		return ctx.Err()
	}})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "once", "b")
	for n := 0; n < 2 || calls.Load() == 0; n++ { // until the store knows of b
		if err := a.elector.TransferTo(s.within(t), "b"); err == nil {
			t.Fatal("handed over to one that is not ready")
		}
	}
	b.end(t, s)
	if n := running.Load(); n != 0 {
		t.Errorf("%d warm-ups go on when the candidate has ended", n)
	}
	if n := most.Load(); n > 1 {
		t.Errorf("%d warm-ups of one candidate ran at once", n)
	}
	a.end(t, s)
	s.verify(t, h, 1)
}
