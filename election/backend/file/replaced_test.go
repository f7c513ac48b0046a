package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// frozen is a clock whose longer timers fire when the process goes on.
type frozen struct {
	clock.Clock
	waits chan struct{} // one for each such timer
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

// TestCandidateThatWasFrozenTakesNoTokenBack: the lock file was removed by hand. B has
// the new one and waits for the lease of the last holder, having read token 1; it is
// frozen there. The lock file is removed again, C and D lead with 2 and 3. When B
// goes on it must not write token 2 over them.
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
	<-stopped.waits // B has the lock and has read the state; now it is frozen
	must(t, os.Remove(lock))

	c, g := lead("c")
	_ = c.Release(ctx, g)
	_, d := lead("d") // and goes on leading

	close(stopped.thaw)
	if err := <-over; err == nil {
		t.Error("B leads with a lock that was replaced")
	}
	must(t, os.Remove(lock)) // D's; or D is killed

	_, e := lead("e")
	if e.Token <= d.Token {
		t.Errorf("the token of the later leader, %d, is not greater than that of the one before, %d", e.Token, d.Token)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
