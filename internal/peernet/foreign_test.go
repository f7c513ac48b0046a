package peernet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
)

// A server has moved, and at its old address there is now a proxy or another program that
// accepts connections and closes them. A server that knows only the old address, and learns
// the new one from the server that dials it, must connect there.
func TestServerIsDialedWhereItSaysThatItIsWhenSomebodyElseIsAtItsAddress(t *testing.T) {
	t.Run("it closes", func(t *testing.T) { foreign(t, true) })
	t.Run("it is silent", func(t *testing.T) { foreign(t, false) })
}

func foreign(t *testing.T, closes bool) {
	synctest.Test(t, func(t *testing.T) {
		b, all := newBook(), pipes{}
		change := func(o *VotesOptions) { o.Listener, o.Dial = tcpLike{o.Listener.(*pipePort)}, all.dial }
		foreign := all.listen(9)
		defer foreign.Close()
		go func() {
			for {
				socket, err := foreign.Accept()
				if err != nil {
					return
				}
				go func() { // it reads something, and does not understand it
					defer socket.Close()
					_, _ = socket.Read(make([]byte, 1000))
					for !closes {
						if _, err := socket.Read(make([]byte, 1000)); err != nil {
							return
						}
					}
				}()
			}
		}()
		two := newParticipant(t, 2, all.listen(2), b, change)
		one := newParticipant(t, 1, all.listen(1), b, change)
		b.set(2, two.address)
		b.set(1, peerwire.Address{Host: "127.0.0.1", Port: 9})
		two.Send(1, notification(2, 1))
		one.Send(2, notification(1, 1))
		began := time.Now()
		select {
		case <-one.notices:
		case <-time.After(10 * time.Minute): // of the bubble
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("after %v server 2 has not dialed server 1 where it says that it is", took)
		}
	})
}
