package peernet_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// lossy loses what is written after the kernel has accepted it, like a network that is down.
type lossy struct {
	net.Conn
	lost *atomic.Bool
	took *atomic.Int64 // bytes that were lost
}

func (l lossy) Write(b []byte) (int, error) {
	if l.lost.Load() {
		l.took.Add(int64(len(b)))
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// A vote is on its way when the connection is lost (a partition that outlasts TCP's patience, a
// firewall that resets): it "may have been lost with the old one" (peernet-N2). Both servers are
// looking, and they and the network are fine again. But nobody dials, because nothing waits,
// until fle sends again, up to 60 s later if there was no leader for a minute.
func TestVoteThatWasLostWithItsConnectionIsSentAgain(t *testing.T) {
	listeners := map[quorum.ID]net.Listener{}
	for id := quorum.ID(1); id <= 2; id++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[id] = l
	}
	addresses := func(id quorum.ID) []peerwire.Address {
		return []peerwire.Address{{Host: "127.0.0.1", Port: uint16(listeners[id].Addr().(*net.TCPAddr).Port)}}
	}
	var lost atomic.Bool
	var took atomic.Int64
	conns := make(chan net.Conn, 10)
	received := make(chan int64, 10)
	begin := func(id quorum.ID, dial peernet.DialFunc, receive func(quorum.ID, fle.Notification)) *peernet.Votes {
		v, err := peernet.NewVotes(peernet.VotesOptions{ID: id, Listener: listeners[id], Advertise: addresses(id), Addresses: addresses,
			Dial: dial, Receive: receive})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
		return v
	}
	begin(1, nil, func(_ quorum.ID, n fle.Notification) { received <- n.Round })
	two := begin(2, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			conns <- conn
			conn = lossy{conn, &lost, &took}
		}
		return conn, err
	}, func(quorum.ID, fle.Notification) {})
	vote := func(round int64) {
		two.Send(1, fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: 2, Zxid: 1}, Round: round, Version: 2})
	}
	vote(1)
	if got := <-received; got != 1 {
		t.Fatal(got)
	}
	lost.Store(true)
	vote(2)
	awaittest.Until(t, "the vote is lost", func() bool { return took.Load() > 0 })
	lost.Store(false)
	_ = (<-conns).(*net.TCPConn).CloseRead() // as after ETIMEDOUT or a reset: reading fails first
	select {
	case got := <-received:
		t.Log("received round ", got)
	case <-time.After(10 * time.Second):
		t.Error("10 s after the connection was lost nobody has dialed, and the vote that was lost with it was not sent again")
	}
}

// A proxy in front of a server that is down accepts the connection and closes it at
// once. It is dialed with the same pauses as a port on which nobody listens.
func TestPeerThatAcceptsAndClosesIsNotDialedAtOnce(t *testing.T) { synctest.Test(t, acceptsAndCloses) }

func acceptsAndCloses(t *testing.T) {
	all := bubble.NewNet(0)
	listens := func(machine int) net.Listener {
		l, err := all.Listen(t.Context(), "tcp", bubble.Host(machine)+":3888")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	proxy := listens(1)
	defer proxy.Close()
	v, err := peernet.NewVotes(peernet.VotesOptions{
		ID: 2, Listener: listens(2), Dial: all.Dialer(2),
		Addresses: func(quorum.ID) []peerwire.Address { return []peerwire.Address{{Host: bubble.Host(1), Port: 3888}} },
		Receive:   func(quorum.ID, fle.Notification) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.Send(1, fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: 2, Zxid: 1}, Round: 1, Version: 2})
	const dials = 7
	var last time.Time
	var gap time.Duration
	for range dials {
		conn, err := proxy.Accept()
		if err != nil {
			t.Fatal(err)
		}
		gap, last = time.Since(last), time.Now()
		_, _ = conn.Read(make([]byte, 1000)) // TCP accepts data even if the other end is about to close
		conn.Close()
	}
	if t.Logf("the last pause is %v", gap); gap < 200*time.Millisecond {
		t.Errorf("between its %dth dial and the one before were %v", dials, gap)
	}
}
