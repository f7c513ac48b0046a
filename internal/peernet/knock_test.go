package peernet

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// knocked is server 2 on virtual time; the test plays server 1, to which server 2 sends
// its vote of round 1. At port 9 a program listens that does not know the protocol.
type knocked struct {
	t      *testing.T
	two    *participant
	all    pipes
	port   *pipePort     // of server 2
	conns  chan net.Conn // that came to server 1
	rounds chan int64    // of what was said on them
	dial   func(string) (net.Conn, error)
}

func newKnocked(t *testing.T) *knocked {
	k := &knocked{t: t, all: pipes{}, conns: make(chan net.Conn, 100), rounds: make(chan int64, 100)}
	b := newBook()
	one := k.all.listen(1)
	t.Cleanup(func() { one.Close() })
	go k.serve(one)
	b.set(1, at(1))
	k.port = k.all.listen(2)
	k.two = newParticipant(t, 2, k.port, b, func(o *VotesOptions) {
		o.Listener = tcpLike{o.Listener.(*pipePort)}
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if k.dial != nil {
				if conn, err := k.dial(address); conn != nil || err != nil {
					return conn, err
				}
			}
			return k.all.dial(ctx, network, address)
		}
	})
	return k
}

// begin makes server 2 dial.
func (k *knocked) begin() { k.two.Send(1, notification(2, 1)) }

func at(port uint16) peerwire.Address { return peerwire.Address{Host: "127.0.0.1", Port: port} }

// serve accepts all connections to server 1.
func (k *knocked) serve(p *pipePort) {
	for {
		conn, err := p.Accept()
		if err != nil {
			return
		}
		k.conns <- conn
		go func() {
			defer conn.Close()
			if _, err := readInitial(conn); err != nil {
				return
			}
			r := bufio.NewReaderSize(conn, 4096)
			for {
				frame, err := readFrame(r, nil)
				if err != nil {
					return
				}
				if n, err := peerwire.DecodeNotification(frame); err == nil {
					k.rounds <- n.Round
				}
			}
		}()
	}
}

func hello(t *testing.T, id quorum.ID, advertised uint16) []byte {
	b, err := appendInitial(peerwire.Initial{Server: id, Addresses: []peerwire.Address{at(advertised)}})
	must(t, err)
	return b
}

// knock dials as server 1, which says where it is.
func (k *knocked) knock(advertised uint16) {
	conn, err := k.port.dial()
	must(k.t, err)
	_, err = conn.Write(hello(k.t, 1, advertised))
	must(k.t, err)
	conn.Close()
}

// comes waits for a round, and fails if it takes long.
func (k *knocked) comes(round int64) {
	k.t.Helper()
	began, late := time.Now(), time.After(10*time.Minute)
	for {
		select {
		case r := <-k.rounds:
			if r != round {
				continue
			}
		case <-late:
		}
		break
	}
	if took := time.Since(began); took > 10*time.Second {
		k.t.Errorf("after %v round %d has not come to server 1, which is where the configuration says", took, round)
	}
}

// Server 1 dials before it knows about the connection to it, on which it has sent nothing yet.
// It advertises its address inside its container. Whatever is at that address, the good
// connection must stay.
func TestKnockBeforeTheFirstVoteDoesNotDisplaceAGoodConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnocked(t)
		foreign := k.all.listen(9)
		defer foreign.Close()
		go func() {
			for {
				socket, err := foreign.Accept()
				if err != nil {
					return
				}
				go io.Copy(io.Discard, socket)
			}
		}()
		k.begin()
		first := <-k.conns
		k.comes(1)
		k.knock(9)
		synctest.Wait() // the knock comes first
		said := notification(1, 1)
		_, _ = first.Write(peerwire.AppendNotification(nil, &said))
		time.Sleep(time.Second) // of the bubble
		k.two.Send(1, notification(2, 2))
		k.comes(2)
	})
}

// Nothing answers at the address that server 1 advertises, so it is dialed at the configured one.
func TestKnockAfterASilentConnectionIsAnsweredAtTheConfiguredAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnocked(t)
		k.dial = func(address string) (net.Conn, error) {
			if address == at(9).String() {
				time.Sleep(5 * time.Second)
				return nil, context.DeadlineExceeded
			}
			return nil, nil
		}
		k.begin()
		<-k.conns
		time.Sleep(3 * time.Second)
		began := time.Now()
		k.knock(9)
		for back := false; !back && time.Since(began) < time.Minute; {
			select {
			case <-k.conns:
				back = true
			case <-time.After(500 * time.Millisecond):
				k.knock(9)
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("dialed back after %v", took)
		}
	})
}

// Server 1 was started on another machine, and something in between keeps the connection to
// the old one open. No vote may be sent there, even though the first attempt to dial back
// fails.
func TestVoteAfterACallBackThatFailedIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnocked(t)
		var refuse atomic.Bool
		k.dial = func(string) (net.Conn, error) {
			if refuse.CompareAndSwap(true, false) {
				return nil, syscall.ECONNREFUSED
			}
			return nil, nil
		}
		k.begin()
		first := <-k.conns
		k.comes(1)
		said := notification(1, 1)
		_, _ = first.Write(peerwire.AppendNotification(nil, &said))
		time.Sleep(time.Second)
		refuse.Store(true)
		k.knock(1)
		select {
		case <-k.conns:
		case <-time.After(10 * time.Minute):
			t.Fatal("server 1 has dialed, and is not dialed back")
		}
		k.two.Send(1, notification(2, 2))
		k.comes(2)
	})
}

// A server moves before it notices that another is away.
func TestServerThatMovesBeforeItKnowsThatAnotherIsAwayDialsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKnocked(t)
		var down atomic.Bool
		k.dial = func(string) (net.Conn, error) {
			if down.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return nil, nil
		}
		k.begin()
		first := <-k.conns
		k.comes(1)
		time.Sleep(90 * time.Second)
		down.Store(true) // its machine loses power
		time.Sleep(time.Second)
		must(t, k.two.Advertise([]peerwire.Address{at(8)}))
		k.two.Reconfigured()
		time.Sleep(150 * time.Second)
		first.Close() // the kernel notices
		time.Sleep(time.Minute)
		down.Store(false)
		select {
		case <-k.conns:
		case <-time.After(10 * time.Minute):
			t.Error("server 1 is back, and is never told where server 2 is")
		}
	})
}
