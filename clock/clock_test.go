package clock

import (
	"testing"
	"time"
)

func TestInstantsNeverGoBack(t *testing.T) {
	last := System().Now()
	for range 10_000 {
		next := System().Now()
		if next < last {
			t.Fatalf("clock went back from %d to %d", last, next)
		}
		last = next
	}
}

func TestTimersFireNoEarlierThanTheirInstant(t *testing.T) {
	makers := map[string]func(Instant) Timer{"system": System().Timer}
	for name, make := range makers {
		for _, wait := range []time.Duration{-time.Hour, 0, 3 * time.Millisecond} {
			at := now().Add(wait)
			timer := make(at)
			select {
			case <-timer.C():
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: timer for %v never fired", name, wait)
			}
			if fired := now(); fired < at {
				t.Errorf("%s: timer for %v fired %v early", name, wait, at.Sub(fired))
			}
			timer.Stop()
		}
	}
}

func TestStoppedTimerStaysSilent(t *testing.T) {
	for name, timer := range map[string]Timer{
		"system": System().Timer(now().Add(time.Hour)),
		"manual": NewManual(0).Timer(1),
	} {
		timer.Stop()
		timer.Stop()
		select {
		case <-timer.C():
			t.Errorf("%s: stopped timer fired", name)
		default:
		}
	}
}

func TestManualClockFiresWhatIsDueAndNothingElse(t *testing.T) {
	m := NewManual(0)
	early, late := m.Timer(Instant(time.Second)), m.Timer(Instant(2*time.Second))
	m.Await(Instant(time.Second))
	m.Advance(time.Second)
	<-early.C()
	select {
	case <-late.C():
		t.Fatal("the later timer fired too")
	default:
	}
	if next, ok := m.Next(); !ok || next != Instant(2*time.Second) {
		t.Fatalf("next timer at %v, %v", next, ok)
	}
}
