package recipes

import (
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestContenderWhoseLogIsBlockedStopsNobody: its client's OnEvent blocks when its turn
// comes. It must still get the lock, to release it, because its session lives.
func TestContenderWhoseLogIsBlockedStopsNobody(t *testing.T) {
	addr := serve(t)
	blocked, full := make(chan struct{}), make(chan struct{})
	c := dialed(t, addr, client.Options{OnEvent: func(client.Event) {
		select {
		case <-blocked:
			<-full
		default:
		}
	}})
	t.Cleanup(func() { close(full) }) // before the client is closed
	first, err := NewLock(dialed(t, addr, client.Options{}), "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	got := make(chan error, 1)
	go func() {
		second, err := NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t))
		if err == nil {
			err = second.Release(awaittest.Within(t))
		}
		got <- err
	}()
	behind := dialed(t, addr, client.Options{})
	awaitQueue(t, behind, "/lock", 2)
	close(blocked)
	must(t, first.Release(awaittest.Within(t)))
	third, err := NewLock(behind, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	must(t, third.Release(awaittest.Within(t)))
	must(t, <-got)
}
