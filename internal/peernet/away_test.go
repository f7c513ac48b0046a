package peernet

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// While a server is away, long after the last election, all others move. When it comes
// back, it knows no new address, but the others know its address and tell it theirs.
func TestServerThatWasAwayWhileAllOthersMovedIsDialed(t *testing.T) {
	const stays, moves, old = 2, 7, 9 // ports
	at := func(port uint16) peerwire.Address { return peerwire.Address{Host: "127.0.0.1", Port: port} }
	for _, ids := range [][2]quorum.ID{{1, 3}, {3, 1}} { // who moves, and who is away
		t.Run(fmt.Sprint(ids), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				present, back := newBook(), newBook()
				of := map[bool]pipes{false: {}, true: {}} // the ports, before it was away and after
				mover, first, second := of[false].listen(moves), of[false].listen(stays), of[true].listen(stays)
				var down, after atomic.Bool
				change := func(o *VotesOptions) {
					o.Listener = tcpLike{o.Listener.(*pipePort)}
					o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						switch {
						case address == at(old).String(), address == at(stays).String() && down.Load():
							return nil, syscall.ECONNREFUSED
						case address == at(stays).String():
							return of[after.Load()].dial(ctx, network, address)
						}
						return of[false].dial(ctx, network, address)
					}
				}
				present.set(ids[0], at(moves))
				present.set(ids[1], at(stays))
				back.set(ids[0], at(old))
				one := newParticipant(t, ids[0], mover, present, change)
				other := newParticipant(t, ids[1], first, present, change)
				one.Send(ids[1], notification(1, 1))
				other.Send(ids[0], notification(1, 1))
				one.receives(t, ids[1], 1)
				other.receives(t, ids[0], 1)
				time.Sleep(90 * time.Second) // of the bubble: a peace
				down.Store(true)
				other.Close()
				time.Sleep(time.Second)
				must(t, one.Advertise([]peerwire.Address{at(8)})) // it moves
				must(t, one.Advertise([]peerwire.Address{at(moves)}))
				one.Reconfigured()
				time.Sleep(time.Minute)
				after.Store(true)
				down.Store(false)
				other = newParticipant(t, ids[1], second, back, change)
				other.Send(ids[0], notification(1, 2))
				began := time.Now()
				late := time.After(10 * time.Minute)
				for came := false; !came; {
					select {
					case h := <-one.notices:
						came = h.n.Round == 2
					case <-late:
						came = true
					}
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%v after server %d is back nobody knows that it is: it dials where nobody is, and nobody dials it", took, ids[1])
				}
			})
		})
	}
}
