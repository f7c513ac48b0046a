package record_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/clock"
)

var simElections = flag.Int("sim-elections", 2000, "elections that TestNoTwoLeadersOverABadNetwork simulates")

// skewed is a clock that runs at another rate than the others. Its timers are
// as late as it is slow.
type skewed struct {
	start time.Time
	rate  float64
}

func (c skewed) Now() clock.Instant {
	return clock.Instant(c.rate * float64(time.Since(c.start)))
}

func (c skewed) Timer(at clock.Instant) clock.Timer {
	wait := time.Duration(float64(at.Sub(c.Now()))/c.rate) + 1
	t := &skewedTimer{fired: make(chan struct{})}
	t.timer = time.AfterFunc(wait, func() { close(t.fired) })
	return t
}

type skewedTimer struct {
	timer *time.Timer
	fired chan struct{}
}

func (t *skewedTimer) C() <-chan struct{} { return t.fired }
func (t *skewedTimer) Stop()              { t.timer.Stop() }

// badLink is the way of one candidate to the store: requests and answers are
// late or lost, and a write whose caller has given up may still arrive. While
// it is cut nothing passes.
type badLink struct {
	*record.Memory
	mu  sync.Mutex
	rng *rand.Rand
	cut time.Time // until when
}

var errLink = errors.New("the answer was lost")

func (l *badLink) chance(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// delay is mostly a millisecond or two, sometimes more than a lease.
func (l *badLink) delay() time.Duration {
	switch pick := l.chance(100); {
	case pick < 90:
		return time.Duration(l.chance(2000)) * time.Microsecond
	case pick < 98:
		return time.Duration(l.chance(400)) * time.Millisecond
	}
	return time.Duration(l.chance(3000)) * time.Millisecond
}

// pass carries a call to the store and its answer back.
func (l *badLink) pass(ctx context.Context, call func()) error {
	l.mu.Lock()
	cut := time.Now().Before(l.cut)
	l.mu.Unlock()
	there, back, lost := l.delay(), l.delay(), l.chance(40)
	done := make(chan struct{})
	go func() { // goes its way also when nobody waits any more
		time.Sleep(there)
		if !cut && lost != 0 {
			call()
			time.Sleep(back)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if cut || lost < 2 {
		return errLink
	}
	return nil
}

func (l *badLink) Read(ctx context.Context, name string) (r record.Record, version string, err error) {
	type answer struct {
		record  record.Record
		version string
	}
	got := make(chan answer, 1)
	err = l.pass(ctx, func() {
		r, v, _ := l.Memory.Read(ctx, name)
		got <- answer{r, v}
	})
	if err != nil {
		return record.Record{}, "", err
	}
	a := <-got
	return a.record, a.version, nil
}

func (l *badLink) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	type answer struct {
		version string
		err     error
	}
	got := make(chan answer, 1)
	err := l.pass(ctx, func() {
		v, err := l.Memory.Write(context.WithoutCancel(ctx), name, r, version)
		got <- answer{v, err}
	})
	if err != nil {
		return "", err
	}
	a := <-got
	return a.version, a.err
}

// believed is a time during which a candidate believed to lead.
type believed struct {
	who      string
	token    election.Token
	from, to time.Time
}

type simulation struct {
	store *record.Memory
	// damage: records are deleted and taken back. Who has not seen the holder
	// cannot know of it then; tokens must grow all the same.
	damage bool
	mu     sync.Mutex
	past   []believed
	want   int
	over   context.CancelFunc
}

// TestNoTwoLeadersOverABadNetwork lets candidates whose clocks differ by the
// whole drift allowed fight over links that delay, lose and cut, each holding
// on to every leadership until the last moment of its deadline. Leaderships
// must not overlap in real time, and tokens must grow (R1 to R5, E02, E04,
// E08, E09, E12).
func TestNoTwoLeadersOverABadNetwork(t *testing.T) {
	const batch = 500
	for seed := range uint64((*simElections + batch - 1) / batch) {
		synctest.Test(t, func(t *testing.T) {
			s := &simulation{store: record.NewMemory(skewed{time.Now(), 1}), want: min(batch, *simElections), damage: seed%4 == 3}
			s.run(t, seed)
			s.judge(t, seed)
		})
		if t.Failed() {
			return
		}
	}
}

const simLease = time.Second

func (s *simulation) run(t *testing.T, seed uint64) {
	ctx, cancel := context.WithCancel(t.Context())
	s.over = cancel
	start := time.Now()
	var group sync.WaitGroup
	for i := range 5 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		// Two per cent and a half on either side are five between two.
		rate := []float64{0.975, 1.025, 1}[rng.IntN(3)]
		link := &badLink{Memory: s.store, rng: rand.New(rand.NewPCG(seed, 100+uint64(i)))}
		c := skewed{start, rate}
		backend := record.New(link, record.Options{Clock: c})
		defer backend.Close()
		elector, err := election.New(backend, "sim", election.Options{ID: fmt.Sprint("c", i), Lease: simLease,
			Forever: true, Clock: c, Retry: 20 * time.Millisecond, Priority: i % 2})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { _ = elector.Run(ctx, s.lead(rng, elector)) })
		group.Go(func() { link.cutNowAndThen(ctx) })
	}
	group.Go(func() { s.meddle(ctx, rand.New(rand.NewPCG(seed, 99))) })
	group.Wait()
	time.Sleep(time.Minute) // what is late arrives
}

// cutNowAndThen cuts the link for up to three leases.
func (l *badLink) cutNowAndThen(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(l.chance(20_000))*time.Millisecond)
		l.mu.Lock()
		l.cut = time.Now().Add(time.Duration(l.rng.Int64N(int64(3 * simLease))))
		l.mu.Unlock()
	}
}

// meddle deletes records, takes them back to older copies and asks leaders to
// give up, as operators do.
func (s *simulation) meddle(ctx context.Context, rng *rand.Rand) {
	operator := record.New(s.store, record.Options{Clock: skewed{time.Now(), 1}})
	var old record.Record
	for ctx.Err() == nil {
		switch pick := rng.IntN(8); {
		case !s.damage:
		case pick == 0:
			s.store.Delete("sim")
		case pick == 1:
			old, _, _ = s.store.Read(ctx, "sim")
		case pick == 2:
			_, version, _ := s.store.Read(ctx, "sim")
			_, _ = s.store.Write(ctx, "sim", old, version)
		}
		sleep(ctx, time.Duration(rng.IntN(10_000))*time.Millisecond)
		request := election.Request{}
		if rng.IntN(2) == 0 {
			request.Transfer = fmt.Sprint("c", rng.IntN(5))
		}
		_ = operator.Ask(ctx, "sim", request)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// lead leads for a while, to the very end if it is told to stop.
func (s *simulation) lead(rng *rand.Rand, e *election.Elector) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, lead election.Leadership) error {
		b := believed{who: lead.ID(), token: lead.Token(), from: time.Now()}
		enough := time.NewTimer(time.Duration(rng.Int64N(int64(3 * simLease))))
		defer enough.Stop()
		select {
		case <-ctx.Done():
			var lost *election.LostError
			for errors.As(context.Cause(ctx), &lost) && lost.Reason == election.ReasonExpired && lead.Remaining() > 0 {
				time.Sleep(lead.Remaining()/2 + time.Microsecond)
			}
		case <-enough.C:
		}
		b.to = time.Now()
		s.file(b)
		return nil
	}
}

func (s *simulation) file(b believed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past = append(s.past, b); len(s.past) == s.want {
		s.over()
	}
}

func (s *simulation) judge(t *testing.T, seed uint64) {
	slices.SortFunc(s.past, func(a, b believed) int { return a.from.Compare(b.from) })
	for i := 1; i < len(s.past); i++ {
		before, after := s.past[i-1], s.past[i]
		beside := after.from.Before(before.to)
		if beside && s.damage {
			continue // granted in one order, told in another
		}
		if beside {
			t.Errorf("seed %d: %s (token %d) led beside %s (token %d) for %v", seed, after.who, after.token,
				before.who, before.token, before.to.Sub(after.from))
		}
		if after.token <= before.token {
			t.Errorf("seed %d: token %d after %d", seed, after.token, before.token)
		}
	}
}
