package peernet

import (
	"testing"
	"time"
)

// While attempts fail, the two addresses of a peer take turns. After a connection on which the
// peer spoke, the configured address comes first.
func TestApproachTakesTurns(t *testing.T) {
	var a approach
	at := func(want bool) {
		t.Helper()
		if got := a.begin(true); got != want {
			t.Fatalf("an attempt at what was advertised: %v, want %v", got, want)
		}
	}
	at(false)
	a.fail(false)
	at(true)
	a.fail(false)
	at(false)
	a.connected()
	a.rest(false, time.Time{}) // connected, and nobody spoke
	at(true)
	a.connected()
	a.rest(true, time.Time{})
	at(false)
	a.fail(false)
	if a.begin(false) {
		t.Fatal("an attempt at what was advertised, and nothing was")
	}
}

// The pause after a connection doubles while the peer does not speak, up to pauseMax. It does not
// delay dialing back a peer that has called.
func TestApproachPauses(t *testing.T) {
	var a approach
	now := time.Unix(1, 0)
	for want := pauseMin; want < 3*pauseMax; want *= 2 {
		a.rest(false, now)
		if pause := min(want, pauseMax); a.due(now.Add(pause-1)) || !a.due(now.Add(pause)) {
			t.Fatalf("not due after %v", pause)
		}
	}
	a.called = true
	if !a.due(now) {
		t.Fatal("a peer that called is put off")
	}
	a.called = false
	a.rest(true, now)
	if a.due(now.Add(pauseMin-1)) || !a.due(now.Add(pauseMin)) {
		t.Fatalf("not due %v after a connection on which the peer spoke", pauseMin)
	}
}

// A failed attempt to dial a peer back is repeated only if there is a connection to the peer:
// the peer does not know about that connection.
func TestApproachCallsBackAgain(t *testing.T) {
	for _, connected := range []bool{false, true} {
		var a approach
		a.called = true
		a.begin(false)
		if a.called || !a.answers {
			t.Fatal("the attempt is not for the call")
		}
		a.fail(connected)
		if a.called != connected {
			t.Errorf("connected %v: to be called back %v", connected, a.called)
		}
		a.connected()
		if a.called || a.failed {
			t.Error("there is a connection, and something is left to do")
		}
	}
}
