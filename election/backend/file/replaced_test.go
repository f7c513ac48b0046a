//go:build unix

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// frozen is a clock whose longer timers fire only when the process goes on.
type frozen struct {
	clock.Clock
	waits chan struct{} // receives once for each such timer
	thaw  chan struct{}
}

func (f frozen) Timer(at clock.Instant) clock.Timer {
	if at.Sub(f.Now()) < lease/2 {
		return f.Clock.Timer(at)
	}
	f.waits <- struct{}{}
	return frozenTimer{f.thaw}
}

type frozenTimer struct{ c chan struct{} }

func (t frozenTimer) C() <-chan struct{} { return t.c }
func (t frozenTimer) Stop()              {}

const lease = 100 * time.Millisecond

// TestCandidateThatWasFrozenTakesNoTokenBack: the lock file was removed by hand. B has the new
// lock and has read token 1; while it waits for the lease of the last holder, it is paused. The
// lock file is removed again, and C and D lead with 2 and 3. When B goes on, it must not
// overwrite them with token 2.
func TestCandidateThatWasFrozenTakesNoTokenBack(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	open := func() *Backend {
		b, err := New(dir)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	claim := func(id string) election.Claim {
		return election.Claim{Election: "jobs", ID: id, Nonce: "0123456789abcdef0123456789abcde" + id, Lease: lease}
	}
	lead := func(id string) (*Backend, election.Grant) {
		b := open()
		g, err := b.Acquire(ctx, claim(id))
		if err != nil {
			t.Fatal(id, ": ", err)
		}
		return b, g
	}
	lock := filepath.Join(dir, "jobs", lockFile)

	a, g := lead("a")
	_ = a.Release(ctx, g)
	must(t, os.Remove(lock))

	b := open()
	stopped := frozen{b.clock, make(chan struct{}, 1), make(chan struct{})}
	b.clock = stopped
	over := make(chan error, 1)
	go func() {
		_, err := b.Acquire(context.Background(), claim("b"))
		over <- err
	}()
	<-stopped.waits // B has the lock and has read the state; now it is paused
	must(t, os.Remove(lock))

	c, g := lead("c")
	_ = c.Release(ctx, g)
	_, d := lead("d") // D goes on leading

	close(stopped.thaw)
	if err := <-over; err == nil {
		t.Error("B leads with a lock that was replaced")
	}
	must(t, os.Remove(lock)) // D's lock file; the alternative is that D is killed

	_, e := lead("e")
	if e.Token <= d.Token {
		t.Errorf("the token of the later leader, %d, is not greater than that of the one before, %d", e.Token, d.Token)
	}
}

// The same before anybody has led: A is paused while it waits for the end of the millisecond that
// is the first token.
func TestFirstCandidateThatWasFrozenTakesNoTokenBack(t *testing.T) {
	for what, remove := range map[string]func(path string) error{
		lockFile:        func(path string) error { return os.Remove(filepath.Join(path, lockFile)) },
		"the directory": removeAll,
	} {
		t.Run(what, func(t *testing.T) {
			a := open(t, t.TempDir())
			stopped := frozenMilli{a.clock, new(atomic.Bool), make(chan struct{}, 1), make(chan struct{})}
			a.clock = stopped
			over := make(chan error, 1)
			first := claim(lease)
			go func() {
				_, err := a.Acquire(awaittest.Within(t), first)
				over <- err
			}()
			<-stopped.waits
			must(t, remove(filepath.Join(a.dir, "jobs")))
			electSoon(t, open(t, a.dir))
			d, last := lead(t, a.dir)
			close(stopped.thaw)
			if err := <-over; err == nil {
				t.Error("A leads with a lock that was removed")
			}
			goesOn(t, d, last)
		})
	}
}

// frozenMilli is a clock whose first timer of about a millisecond fires only when the process
// goes on.
type frozenMilli struct {
	clock.Clock
	fired *atomic.Bool
	waits chan struct{}
	thaw  chan struct{}
}

func (f frozenMilli) Timer(at clock.Instant) clock.Timer {
	if d := at.Sub(f.Now()); d <= 0 || d > 3*time.Millisecond/2 || f.fired.Swap(true) {
		return f.Clock.Timer(at)
	}
	f.waits <- struct{}{}
	return frozenTimer{f.thaw}
}

// The same while A writes its state: before and after it has checked its lock, in a new election
// and in an old one.
func TestCandidateThatWasFrozenWhileItWritesTakesNoTokenBack(t *testing.T) {
	for _, operation := range []string{"sync", "rename"} {
		for _, elections := range []int{0, 1} {
			a := open(t, t.TempDir())
			p, err := a.place("jobs")
			must(t, err)
			must(t, p.prepare())
			for range elections {
				electSoon(t, a)
			}
			var d *Backend
			var last election.Grant
			a.fault = func(now string) error {
				if now == operation && d == nil {
					must(t, os.Remove(p.path(lockFile)))
					electSoon(t, open(t, a.dir))
					d, last = lead(t, a.dir)
				}
				return nil
			}
			if _, err := a.Acquire(awaittest.Within(t), claim(lease)); err == nil {
				t.Errorf("%s, after %d: A leads with a lock that was removed", operation, elections)
			}
			goesOn(t, d, last)
		}
	}
}

// The same when A goes on at the moment when another candidate is about to replace the state: A
// must not rename that candidate's draft, which may be half written, to the state.
func TestCandidateThatWasFrozenTakesNoDraftOfAnother(t *testing.T) {
	a := open(t, t.TempDir())
	first := electSoon(t, a)
	p, err := a.place("jobs")
	must(t, err)
	frozen, thaw, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	a.fault = func(now string) error {
		if now == "rename" {
			close(frozen)
			<-thaw
		}
		return nil
	}
	old := claim(lease)
	go func() {
		_, err := a.Acquire(awaittest.Within(t), old)
		over <- err
	}()
	<-frozen
	must(t, os.Remove(p.path(lockFile)))
	d := open(t, a.dir)
	d.fault = func(now string) error {
		if now == "rename" {
			close(thaw)
			if err := <-over; err == nil {
				t.Error("A leads with a lock that was removed")
			}
			if s, err := p.readState(); err != nil || s.token != first {
				t.Errorf("A left a state with token %d, %v; expected %d, as it was", s.token, err, first)
			}
		}
		return nil
	}
	last, err := d.Acquire(awaittest.Within(t), claim(lease))
	must(t, err)
	d.fault = nil
	goesOn(t, d, last)
}

func lead(t *testing.T, dir string) (*Backend, election.Grant) {
	t.Helper()
	b := open(t, dir)
	grant, err := b.Acquire(awaittest.Within(t), claim(lease))
	must(t, err)
	return b, grant
}

// electSoon acquires with a short lease, and releases.
func electSoon(t *testing.T, b *Backend) election.Token {
	t.Helper()
	grant, err := b.Acquire(awaittest.Within(t), claim(lease))
	must(t, err)
	must(t, b.Release(awaittest.Within(t), grant))
	return grant.Token
}

// goesOn checks that a leadership goes on, and that the next one has a higher token.
func goesOn(t *testing.T, b *Backend, grant election.Grant) {
	t.Helper()
	if _, err := b.Renew(awaittest.Within(t), grant); err != nil {
		t.Errorf("a leader whose lock nobody has touched: %v", err)
	}
	must(t, b.Release(awaittest.Within(t), grant))
	if next := electSoon(t, open(t, b.dir)); next <= grant.Token {
		t.Errorf("token %d after %d", next, grant.Token)
	}
}

// A restore whose process was paused does not take a token back, either.
func TestRestoreThatWasFrozenTakesNoTokenBack(t *testing.T) {
	a := open(t, t.TempDir())
	first := electSoon(t, a)
	var d *Backend
	var last election.Grant
	a.fault = func(now string) error {
		if now == "sync" && d == nil {
			must(t, os.Remove(filepath.Join(a.dir, "jobs", lockFile)))
			electSoon(t, open(t, a.dir))
			d, last = lead(t, a.dir)
		}
		return nil
	}
	if err := a.Restore(awaittest.Within(t), "jobs", first+1); err == nil {
		t.Error("a token was restored over one that was given out since")
	}
	goesOn(t, d, last)
}

// The files of an election are removed one by one, in any order, while waiting candidates make
// the files that they miss (file-F5). Afterwards somebody leads, with a higher token.
func TestFilesThatAreRemovedOneByOneEndNoElection(t *testing.T) {
	names := []string{lockFile, stateFile, historyFile, queueDir}
	var orders [][]string
	var permute func(order, rest []string)
	permute = func(order, rest []string) {
		if len(rest) == 0 {
			orders = append(orders, order)
		}
		for i := range rest {
			others := append(append([]string{}, rest[:i]...), rest[i+1:]...)
			permute(append(append([]string{}, order...), rest[i]), others)
		}
	}
	permute(nil, names)
	for _, order := range orders {
		for upTo := range names {
			b := open(t, t.TempDir())
			p, err := b.place("jobs")
			must(t, err)
			waits := 0
			b.clock = patient{b.clock, &waits}
			last := elect(t, b)
			for _, name := range order[:upTo+1] {
				must(t, removeAll(p.path(name)))
				must(t, p.prepare())
			}
			if next := elect(t, b); next <= last {
				t.Errorf("without %v: token %d after %d", order[:upTo+1], next, last)
			}
		}
	}
}

// If only the state is lost, the leader loses its leadership, but no token is lost, even though
// the clock was set back.
func TestLostStateIsANewElectionAboveItsHistory(t *testing.T) {
	b := open(t, t.TempDir())
	const high = 1 << 60
	must(t, b.Restore(awaittest.Within(t), "jobs", high))
	grant, err := b.Acquire(awaittest.Within(t), claim(lease))
	must(t, err)
	must(t, os.Remove(filepath.Join(b.dir, "jobs", stateFile)))
	if _, err := b.Renew(awaittest.Within(t), grant); !errors.Is(err, election.ErrLost) {
		t.Errorf("Renew returned %v", err)
	}
	for view, err := range b.Observe(awaittest.Within(t), "jobs") {
		if err != nil || view.Leader != "" {
			t.Errorf("an observer sees %+v, %v", view, err)
		}
		break
	}
	must(t, b.Release(awaittest.Within(t), grant))
	if next := elect(t, b); next != grant.Token+1 {
		t.Errorf("token %d after %d", next, grant.Token)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
