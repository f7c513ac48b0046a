package zookeeper_test

import (
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestCloseLetsTheSessionOfALeaderExpire: the leader's function goes on, and may
// do so until its deadline. If the session ended at Close, the next candidate
// would be elected at once.
func TestCloseLetsTheSessionOfALeaderExpire(t *testing.T) {
	addr := startServerFor(t, 10*time.Second)
	first, second := open(t, addr), open(t, addr)
	held, err := first.Acquire(awaittest.Within(t), claim("a", 4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-held.Lost:
	default:
		t.Error("the leader was not told")
	}
	if _, err := second.Acquire(awaittest.Within(t), claim("b", 4*time.Second)); err != nil {
		t.Fatal(err)
	}
	if early := held.Sent.Add(held.Lease).Sub(clock.Now()); early > 0 {
		t.Errorf("the next one was elected %v before the end of the lease", early)
	}
}
