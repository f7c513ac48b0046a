//go:build unix

package file

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// counting is a clock that counts the timers that it makes.
type counting struct {
	clock.Clock
	timers *atomic.Int64
}

func (c counting) Timer(at clock.Instant) clock.Timer {
	c.timers.Add(1)
	return c.Clock.Timer(at)
}

// Another candidate waits while the nominee warms up. Its looks at the lock must
// not wake itself or others.
func TestWaiterSleepsWhileTheNomineeWarmsUp(t *testing.T) {
	leader, other, nominee := open(t, t.TempDir()), open(t, t.TempDir()), open(t, t.TempDir())
	other.dir, nominee.dir = leader.dir, leader.dir
	grant, err := leader.Acquire(awaittest.Within(t), claim(time.Second))
	must(t, err)
	looks := new(atomic.Int64)
	other.clock = counting{other.clock, looks}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{}, 2)
	wait := func(b *Backend) string {
		c := claim(time.Second)
		const looksMax = 60 // after the first turn, pauses grow from 2 ms, and some changes wake it
		c.Warm = func(context.Context) error {
			before := looks.Load()
			awaittest.Never(t, 2*turnMax, fmt.Sprint("more looks at the lock than ", looksMax), func() bool {
				return looks.Load()-before > looksMax
			})
			return nil
		}
		go func() {
			_, _ = b.Acquire(ctx, c)
			left <- struct{}{}
		}()
		return c.ID
	}
	wait(other)
	next := wait(nominee)
	p, err := leader.place("jobs")
	must(t, err)
	awaittest.Until(t, "all three are there", func() bool {
		waiters, err := p.waiters()
		return err == nil && len(waiters) == 3
	})
	must(t, leader.Nominate(awaittest.Within(t), grant, next))
	cancel()
	<-left
	<-left
	must(t, leader.Release(awaittest.Within(t), grant))
}
