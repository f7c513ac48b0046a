package clock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestTimersOfAnAlarmFireInTheirOrder stops some of the timers from other goroutines.
// No timer fires early or twice: closing a channel twice would panic.
func TestTimersOfAnAlarmFireInTheirOrder(t *testing.T) {
	var a alarm
	random := rand.New(rand.NewPCG(1, 2))
	var group sync.WaitGroup
	for i := range 500 {
		at := now().Add(time.Duration(random.IntN(30_000)) * time.Microsecond)
		one := a.timer(at)
		group.Go(func() {
			defer one.Stop()
			if i%5 == 0 {
				one.Stop()
				return
			}
			<-one.C()
			if early := at.Sub(now()); early > 0 {
				t.Errorf("fired %v early", early)
			}
		})
	}
	group.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.timers) != 0 {
		t.Errorf("%d timers are left", len(a.timers))
	}
}

// TestEarlierTimerIsNotHeldUpByALaterOne sets an earlier timer three times, beside a
// later timer and one that was stopped.
func TestEarlierTimerIsNotHeldUpByALaterOne(t *testing.T) {
	var a alarm
	late, stopped := a.timer(now().Add(time.Hour)), a.timer(now().Add(time.Millisecond))
	defer late.Stop()
	stopped.Stop()
	for range 3 {
		early := a.timer(now().Add(2 * time.Millisecond))
		select {
		case <-early.C():
		case <-late.C():
			t.Fatal("the later timer fired")
		case <-time.After(10 * time.Second):
			t.Fatal("the earlier timer never fired")
		}
	}
}
