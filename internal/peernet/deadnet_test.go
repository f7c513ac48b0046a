package peernet

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
)

// A server has two addresses, and the network of one is down: nothing answers there. It starts
// and dials. It must be dialed back at its other address at once, not only after the current
// attempt on the dead network has timed out.
func TestServerWithADeadNetworkIsDialedBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, all := newBook(), pipes{}
		var started atomic.Bool
		change := func(o *VotesOptions) {
			o.Listener = tcpLike{o.Listener.(*pipePort)}
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if host, _, _ := net.SplitHostPort(address); host == "dead" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				if address == "127.0.0.1:1" && !started.Load() {
					return nil, syscall.ECONNREFUSED
				}
				return all.dial(ctx, network, address)
			}
		}
		port := all.listen(1)
		two := newParticipant(t, 2, all.listen(2), b, change)
		b.set(2, two.address)
		b.set(1, peerwire.Address{Host: "127.0.0.1", Port: 1}, peerwire.Address{Host: "dead", Port: 1})
		two.Send(1, notification(2, 1))
		time.Sleep(100 * time.Millisecond) // of the bubble
		started.Store(true)
		one := newParticipant(t, 1, port, b, change)
		began := time.Now()
		one.Send(2, notification(1, 1))
		one.receives(t, 2, 1)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("server 1 is dialed back after %v", took)
		}
	})
}
