package recipes

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// TestLockWhoseSessionEndsAsItIsAcquiredIsNotHeldForEver ends the session after
// the last look at the line, when nobody is left who could report the loss.
func TestLockWhoseSessionEndsAsItIsAcquiredIsNotHeldForEver(t *testing.T) {
	c := dialed(t, serve(t), client.Options{})
	l := NewLock(c, "/lock", Options{})
	_, err := l.line.acquire(awaittest.Within(t), lockKind, func([]member) int {
		c.Close()
		return -1
	})
	if !errors.Is(err, zk.ErrClosing) {
		t.Errorf("Acquire returned %v", err)
	}
}

// TestHeldLockIsLostWithItsSession ends the session at any moment after
// Acquire.
func TestHeldLockIsLostWithItsSession(t *testing.T) {
	c := dialed(t, serve(t), client.Options{})
	h, err := NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	go c.Close()
	select {
	case <-h.Lost():
	case <-awaittest.Within(t).Done():
		t.Error("the session has ended, and the lock is not lost")
	}
}

// TestProofsGoOnWhileALockIsHeld checks that the deadline of a held lock moves,
// and that a lock that was released is not reported as lost.
func TestProofsGoOnWhileALockIsHeld(t *testing.T) {
	c := dialed(t, serve(t), client.Options{})
	h, err := NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	for first, ctx := h.ProvenUntil(), awaittest.Within(t); h.ProvenUntil() <= first; {
		select {
		case <-h.moved: // the deadline's keeper does not read it then, but has its timer
		case <-h.Lost():
			t.Fatal("the lock is lost")
		case <-ctx.Done():
			t.Fatal("nothing proves the session")
		}
	}
	must(t, h.Release(awaittest.Within(t)))
	must(t, h.Release(awaittest.Within(t)))
	must(t, c.Close())
	select {
	case <-h.Lost():
		t.Error("a lock that was released is lost")
	default:
	}
}
