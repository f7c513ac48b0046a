package peernet

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// book holds the addresses of the servers of a test.
type book struct {
	mu        sync.Mutex
	addresses map[quorum.ID][]peerwire.Address
}

func newBook() *book { return &book{addresses: make(map[quorum.ID][]peerwire.Address)} }

func (b *book) of(id quorum.ID) []peerwire.Address {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addresses[id]
}

func (b *book) set(id quorum.ID, addresses ...peerwire.Address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addresses[id] = addresses
}

type notice struct {
	from quorum.ID
	n    fle.Notification
}

// participant is a server with its election port.
type participant struct {
	*Votes
	id      quorum.ID
	address peerwire.Address
	notices chan notice
}

// startParticipant opens an election port and enters it in the book.
func startParticipant(t testing.TB, id quorum.ID, b *book, change func(*VotesOptions)) *participant {
	t.Helper()
	v := newParticipant(t, id, listen(t, "127.0.0.1:0"), b, change)
	b.set(id, v.address)
	return v
}

func newParticipant(t testing.TB, id quorum.ID, l net.Listener, b *book, change func(*VotesOptions)) *participant {
	t.Helper()
	v := &participant{id: id, address: addressOf(l), notices: make(chan notice, 10000)}
	o := VotesOptions{ID: id, Listener: l, Advertise: []peerwire.Address{v.address}, Addresses: b.of, Logger: quiet,
		Receive: func(from quorum.ID, n fle.Notification) { v.notices <- notice{from, n} }}
	if change != nil {
		change(&o)
	}
	var err error
	v.Votes, err = NewVotes(o)
	must(t, err)
	t.Cleanup(v.Close)
	return v
}

// notification returns a notification that is identified by its round.
func notification(leader quorum.ID, round int64) fle.Notification {
	return fle.Notification{Vote: fle.Vote{Leader: leader, Zxid: 0x100000001, Epoch: 1}, Round: round}
}

// receives waits for a notification of that round from a peer, and ignores
// others.
func (v *participant) receives(t testing.TB, from quorum.ID, round int64) {
	t.Helper()
	for {
		h := get(t, fmt.Sprintf("round %d of %d at %d", round, from, v.id), v.notices)
		if h.from == from && h.n.Round == round {
			return
		}
	}
}

// connections returns the sockets in use.
func (v *participant) connections() map[quorum.ID]net.Conn {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := make(map[quorum.ID]net.Conn)
	for id, p := range v.mu.peers {
		if p.conn != nil {
			m[id] = p.conn.socket
		}
	}
	return m
}

// paired reports whether each pair has exactly one connection, the same at both ends.
func paired(participants []*participant) bool {
	for _, v := range participants {
		sockets := v.connections()
		if len(sockets) != len(participants)-1 {
			return false
		}
		for _, w := range participants {
			if w.id <= v.id {
				continue
			}
			there := w.connections()[v.id]
			if there == nil || there.LocalAddr().String() != sockets[w.id].RemoteAddr().String() ||
				there.RemoteAddr().String() != v.address.String() {
				return false // the larger number dialed
			}
		}
	}
	return true
}

func TestCrossingDialsEndInOneConnectionPerPairAndAllReceive(t *testing.T) {
	leavesNothing(t)
	for _, size := range []int{2, 3, 5} {
		for range 10 {
			b := newBook()
			var participants []*participant
			for id := range size {
				participants = append(participants, startParticipant(t, quorum.ID(id), b, nil))
			}
			for _, v := range participants {
				go func() {
					for _, w := range participants {
						v.Send(w.id, notification(v.id, 7))
					}
				}()
			}
			for _, v := range participants {
				missing := size - 1
				seen := make(map[quorum.ID]bool)
				for missing > 0 {
					if h := get(t, "a vote", v.notices); !seen[h.from] {
						seen[h.from] = true
						missing--
					}
				}
				if seen[v.id] {
					t.Fatalf("%d received its own vote", v.id)
				}
			}
			awaittest.Until(t, "one connection per pair", func() bool { return paired(participants) })
			for _, v := range participants {
				v.Close()
			}
		}
	}
}

func TestNewestMessageReplacesTheOneThatWaits(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	gate := make(chan struct{})
	small := startParticipant(t, 1, b, nil)
	large := startParticipant(t, 2, b, func(o *VotesOptions) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			<-gate
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	for round := range int64(100) {
		large.Send(1, notification(2, round))
	}
	close(gate)
	if h := get(t, "a vote", small.notices); h.n.Round != 99 {
		t.Errorf("round %d", h.n.Round)
	}
	none(t, "one more message", small.notices)
}

func TestServerThatComesLateIsTold(t *testing.T) {
	leavesNothing(t)
	for _, ids := range [][2]quorum.ID{{1, 2}, {2, 1}} {
		b, board := newBook(), newSwitchboard()
		change := func(o *VotesOptions) { o.Dial = board.dial }
		names := []peerwire.Address{{Host: "early", Port: 1}, {Host: "late", Port: 1}}
		b.set(ids[0], names[0])
		b.set(ids[1], names[1])
		early := newParticipant(t, ids[0], board.plug(t, names[0]), b, change)
		early.Send(ids[1], notification(1, 3))
		get(t, "an attempt that failed", board.tried)
		late := newParticipant(t, ids[1], board.plug(t, names[1]), b, change)
		late.receives(t, ids[0], 3)
		late.Close()
		early.Close()
	}
}

func TestRestartedPeerIsTalkedToAgain(t *testing.T) {
	leavesNothing(t)
	for _, ids := range [][2]quorum.ID{{1, 2}, {2, 1}} {
		b, board := newBook(), newSwitchboard()
		change := func(o *VotesOptions) { o.Dial = board.dial }
		names := []peerwire.Address{{Host: "stays", Port: 1}, {Host: "restarts", Port: 1}}
		b.set(ids[0], names[0])
		b.set(ids[1], names[1])
		stays := newParticipant(t, ids[0], board.plug(t, names[0]), b, change)
		first := newParticipant(t, ids[1], board.plug(t, names[1]), b, change)
		stays.Send(first.id, notification(1, 1))
		first.receives(t, stays.id, 1)
		first.Close()
		awaittest.Until(t, "the end of the connection", func() bool { return len(stays.connections()) == 0 })
		stays.Send(first.id, notification(1, 2))
		get(t, "an attempt that failed", board.tried)
		second := newParticipant(t, ids[1], board.plug(t, names[1]), b, change)
		second.receives(t, stays.id, 2)
		second.Send(stays.id, notification(1, 3))
		stays.receives(t, second.id, 3)
		second.Close()
		stays.Close()
	}
}

// rawPeer is a peer driven by the test.
type rawPeer struct {
	t testing.TB
	*net.TCPConn
}

func dialParticipant(t testing.TB, v *participant, id quorum.ID, advertise ...peerwire.Address) rawPeer {
	t.Helper()
	p := rawPeer{t, dialRaw(t, v.address)}
	b, err := appendInitial(peerwire.Initial{Server: id, Addresses: advertise})
	must(t, err)
	_, err = p.Write(b)
	must(t, err)
	return p
}

func (p rawPeer) send(n fle.Notification) {
	p.t.Helper()
	_, err := p.Write(peerwire.AppendNotification(nil, &n))
	must(p.t, err)
}

func (p rawPeer) receive() fle.Notification {
	p.t.Helper()
	var head [4]byte
	_, err := io.ReadFull(p, head[:])
	must(p.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err = io.ReadFull(p, frame)
	must(p.t, err)
	n, err := peerwire.DecodeNotification(frame)
	must(p.t, err)
	return n
}

func TestNewConnectionReplacesTheOldAndBeginsWithTheLastMessage(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 1, b, nil)
	b.set(9, nobody)
	first := dialParticipant(t, v, 9, peerwire.Address{Host: "peer", Port: 1})
	first.send(notification(9, 1))
	v.receives(t, 9, 1)
	v.Send(9, notification(1, 5))
	if n := first.receive(); n.Round != 5 {
		t.Fatalf("round %d", n.Round)
	}
	second := dialParticipant(t, v, 9, peerwire.Address{Host: "peer", Port: 1})
	if n := second.receive(); n.Round != 5 {
		t.Errorf("round %d", n.Round)
	}
	ends(t, first)
	second.send(notification(9, 2))
	v.receives(t, 9, 2)
	if len(v.connections()) != 1 {
		t.Error("not one connection")
	}
}

func TestSmallerNumberIsDialedBack(t *testing.T) {
	leavesNothing(t)
	for _, known := range []bool{true, false} {
		b := newBook()
		v := startParticipant(t, 5, b, nil)
		l := listen(t, "127.0.0.1:0")
		advertised := addressOf(l)
		if known {
			b.set(3, advertised)
			advertised = nobody // the configured address is the right one
		}
		ends(t, dialParticipant(t, v, 3, advertised))
		socket, err := l.Accept()
		must(t, err)
		p := rawPeer{t, socket.(*net.TCPConn)}
		in, err := readInitial(p)
		must(t, err)
		if in.Server != 5 || len(in.Addresses) != 1 || in.Addresses[0] != v.address {
			t.Errorf("%+v", in)
		}
		p.send(notification(3, 4))
		v.receives(t, 3, 4)
		v.Send(3, notification(5, 6))
		if n := p.receive(); n.Round != 6 {
			t.Errorf("round %d", n.Round)
		}
		p.Close()
		v.Close()
	}
}

// A server that has not learned of a reconfig is not where the configuration says, but
// advertises where it is when it dials (review 25, F5). It may advertise localhost.
func TestSmallerNumberIsDialedBackWhereItSaysThatItIs(t *testing.T) {
	leavesNothing(t)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		b := newBook()
		v := startParticipant(t, 5, b, nil)
		l := listen(t, "127.0.0.1:0")
		b.set(3, nobody)
		advertised := peerwire.Address{Host: host, Port: addressOf(l).Port}
		ends(t, dialParticipant(t, v, 3, advertised))
		awaittest.Until(t, "nobody is at its configured address", func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			p := v.mu.peers[3]
			return p != nil && p.next.failed && !p.dialing
		})
		ends(t, dialParticipant(t, v, 3, advertised))
		socket, err := l.Accept()
		must(t, err)
		p := rawPeer{t, socket.(*net.TCPConn)}
		_, err = readInitial(p)
		must(t, err)
		p.send(notification(3, 4))
		v.receives(t, 3, 4)
		p.Close()
		v.Close()
		l.Close()
	}
}

func TestStrangersAreReceivedAndAnsweredButNotDialed(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	dials := make(chan string, 100)
	v := startParticipant(t, 5, b, func(o *VotesOptions) {
		o.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
			dials <- address
			return nil, io.ErrNoProgress
		}
	})
	v.Send(8, notification(5, 1))
	joiner := dialParticipant(t, v, 8, peerwire.Address{Host: "joiner", Port: 1})
	joiner.send(notification(8, 2))
	v.receives(t, 8, 2)
	v.Send(8, notification(5, 3))
	if n := joiner.receive(); n.Round != 3 {
		t.Errorf("round %d: what was sent before it came is dropped", n.Round)
	}
	joiner.Close()
	awaittest.Until(t, "nothing of the stranger", func() bool { return len(v.ids()) == 0 })
	v.Send(8, notification(5, 4))
	ends(t, dialParticipant(t, v, 4)) // advertises no address
	none(t, "a stranger was dialed", dials)

	// Of the smaller number it must be, once.
	ends(t, dialParticipant(t, v, 4, peerwire.Address{Host: "small", Port: 7}))
	if a := get(t, "a dial", dials); a != "small:7" {
		t.Errorf("dialed %s", a)
	}
	awaittest.Until(t, "nothing of the stranger", func() bool { return len(v.ids()) == 0 })
	none(t, "a stranger was dialed twice", dials)
}

func TestObserversWithoutNumberGetNegativeOnes(t *testing.T) {
	leavesNothing(t)
	v := startParticipant(t, 5, newBook(), nil)
	for want := quorum.ID(-1); want >= -3; want-- {
		p := dialParticipant(t, v, peerwire.NoID, peerwire.Address{Host: "observer", Port: 1})
		p.send(notification(0, 1))
		v.receives(t, want, 1)
		v.Send(want, notification(5, 2))
		if n := p.receive(); n.Round != 2 {
			t.Errorf("round %d", n.Round)
		}
	}
}

func TestObserverWithoutNumberReceivesItsPeersVotes(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 5, b, nil)
	o := startParticipant(t, peerwire.NoID, b, nil)
	b.set(peerwire.NoID) // nobody knows it
	o.Send(5, notification(0, 1))
	v.receives(t, -1, 1)
	v.Send(-1, notification(5, 2))
	o.receives(t, 5, 2)
}

func TestManyStrangersPushOutEachOtherButNoPeer(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 1, b, nil)
	peer := startParticipant(t, 2, b, nil)
	peer.Send(1, notification(2, 1))
	v.receives(t, 2, 1)
	var strangers []rawPeer
	for id := range quorum.ID(strangersMax + 20) {
		p := dialParticipant(t, v, 1000+id, peerwire.Address{Host: "stranger", Port: 1})
		p.send(notification(0, 9))
		v.receives(t, 1000+id, 9)
		strangers = append(strangers, p)
	}
	for _, p := range strangers[:20] {
		ends(t, p)
	}
	if n := len(v.connections()); n != strangersMax+1 {
		t.Errorf("%d connections", n)
	}
	peer.Send(1, notification(2, 2))
	v.receives(t, 2, 2)
}

func TestSilentConnectionsKeepNoPeerOut(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 1, b, nil)
	peer := startParticipant(t, 2, b, nil)
	for range 3 * lobby.Max {
		socket := dialRaw(t, v.address)
		_, err := socket.Write([]byte{0xff, 0xff}) // the beginning of something
		must(t, err)
	}
	peer.Send(1, notification(2, 1))
	v.receives(t, 2, 1)
	if n := v.lobby.Count(); n > lobby.Max {
		t.Errorf("%d connections wait", n)
	}
}

func TestConnectionThatDoesNotSayWhoItIsEnds(t *testing.T) {
	leavesNothing(t)
	v := startParticipant(t, 1, newBook(), func(o *VotesOptions) { o.ConnectTimeout = 20 * time.Millisecond })
	socket := dialRaw(t, v.address)
	_, err := socket.Write([]byte("\xff\xff\xff\xff\xff\xff\x00\x00"))
	must(t, err)
	ends(t, socket)
}

// initials are first bytes after which the connection is closed.
var initials = map[string]string{
	"a client":            "\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x75\x30",
	"http":                "GET / HTTP/1.1\r\nHost: conclave\r\n\r\n",
	"unknown version":     "\xff\xff\xff\xff\xff\xff\x00\x09\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x03a:1",
	"no address":          "\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00",
	"negative length":     "\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\xff\xff\xff\xff",
	"address too long":    "\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x08\x01",
	"no port":             "\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01a",
	"negative number":     "\xff\xff\xff\xff\xff\xff\x00\x00\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x03a:1",
	"own number":          "\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x03a:1",
	"bytes that end":      "\xff\xff\xff",
	"frame of length 0":   "\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00",
	"negative frame":      "\x00\x00\x00\x00\x00\x00\x00\x09\x80\x00\x00\x00",
	"frame too long":      "\x00\x00\x00\x00\x00\x00\x00\x09\x00\x08\x00\x01",
	"frame that ends":     "\x00\x00\x00\x00\x00\x00\x00\x09\x00\x08\x00\x00hello",
	"many zeroes":         strings.Repeat("\x00", 100_000),
	"many bytes with sid": "\x00\x00\x00\x00\x00\x00\x00\x09" + strings.Repeat("\xff", 100_000),
}

func TestGarbageOnTheElectionPortEndsTheConnectionAndHarmsNobody(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 1, b, nil)
	peer := startParticipant(t, 2, b, nil)
	round := int64(0)
	for name, bytes := range initials {
		t.Run(name, func(t *testing.T) {
			socket := dialRaw(t, v.address)
			_, _ = socket.Write([]byte(bytes)) // the server may close it first
			_ = socket.CloseWrite()
			ends(t, socket)
			round++
			peer.Send(1, notification(2, round))
			v.receives(t, 2, round)
		})
	}
}

func TestMalformedNotificationIsIgnored(t *testing.T) {
	leavesNothing(t)
	v := startParticipant(t, 1, newBook(), nil)
	p := dialParticipant(t, v, 9, peerwire.Address{Host: "peer", Port: 1})
	for _, frame := range []string{
		"\x00\x00\x00\x01x", "\x00\x00\x00\x1d" + strings.Repeat("\x00", 29),
		"\x00\x00\x00\x2c" + strings.Repeat("\xff", 44),
		"\x00\x01\x00\x00" + strings.Repeat("\x00", 1<<16),
	} {
		_, err := p.Write([]byte(frame))
		must(t, err)
	}
	long := notification(9, 1)
	long.Config = strings.Repeat("#", 100_000) + "\nversion=100000000"
	p.send(long)
	p.send(notification(9, 2))
	v.receives(t, 9, 1)
	v.receives(t, 9, 2)
	v.Send(9, long)
	if n := p.receive(); n.Config != long.Config {
		t.Error("the configuration did not survive")
	}
}

func TestErrorsOfAcceptAreGotOver(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	l := listen(t, "127.0.0.1:0")
	v := newParticipant(t, 1, &flaky{Listener: l, fails: 4}, b, nil)
	b.set(1, v.address)
	peer := startParticipant(t, 2, b, nil)
	peer.Send(1, notification(2, 1))
	v.receives(t, 2, 1)
}

func TestReconfigurationMovesConnections(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 5, b, nil)
	before := startParticipant(t, 3, b, nil)
	stays := startParticipant(t, 4, b, nil)
	for _, p := range []*participant{before, stays} {
		v.Send(p.id, notification(5, 1))
		p.receives(t, 5, 1)
	}
	kept := v.connections()[4]
	after := newParticipant(t, 3, listen(t, "127.0.0.1:0"), b, nil)
	b.set(3, after.address)
	v.Reconfigured()
	awaittest.Until(t, "the end of the old connection", func() bool { return len(before.connections()) == 0 })
	v.Send(3, notification(5, 2))
	after.receives(t, 5, 2)
	if v.connections()[4] != kept {
		t.Error("the connection to the server that did not move is another")
	}

	b.set(3) // it leaves
	v.Reconfigured()
	awaittest.Until(t, "the end of the connection", func() bool { return len(after.connections()) == 0 })
	v.Send(3, notification(5, 3))
	none(t, "a message to the server that left", after.notices)
}

func TestStrangerThatJoinsKeepsItsConnection(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 5, b, nil)
	p := dialParticipant(t, v, 8, peerwire.Address{Host: "joiner", Port: 1})
	p.send(notification(8, 1))
	v.receives(t, 8, 1)
	b.set(8, nobody)
	v.Reconfigured()
	v.Send(8, notification(5, 2))
	if n := p.receive(); n.Round != 2 {
		t.Errorf("round %d", n.Round)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.mu.strangers) != 0 {
		t.Error("it is still a stranger")
	}
}

func TestFirstOfSeveralAddressesThatAnswersIsTaken(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	small := startParticipant(t, 1, b, nil)
	b.set(1, nobody, small.address, nobody)
	large := startParticipant(t, 2, b, nil)
	large.Send(1, notification(2, 1))
	small.receives(t, 2, 1)
}

func TestPeerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, all := newBook(), pipes{}
		change := func(o *VotesOptions) { o.Dial, o.ConnectTimeout = all.dial, 5*time.Second }
		port := all.listen(5)
		v := newParticipant(t, 5, port, b, change) // the larger number dials and is not dialed back
		b.set(5, v.address)
		says, err := appendInitial(peerwire.Initial{Server: 9, Addresses: []peerwire.Address{{Host: "deaf", Port: 9}}})
		must(t, err)
		n := notification(9, 1)
		all.listen(9).Close()
		b.set(9, peerwire.Address{Host: "deaf", Port: 9})
		dialPipe(t, port, peerwire.AppendNotification(says, &n))
		v.receives(t, 9, 1)
		v.Send(9, notification(5, 2))
		time.Sleep(4 * time.Second)
		if len(v.connections()) != 1 {
			t.Error("the connection has ended too early")
		}
		peer := newParticipant(t, 2, all.listen(2), b, change)
		b.set(2, peer.address)
		v.Send(2, notification(5, 3))
		peer.receives(t, 5, 3)
		time.Sleep(2 * time.Second)
		if all := v.connections(); len(all) != 1 || all[9] != nil {
			t.Errorf("one that takes nothing for 5 s is connected: %v", all)
		}
	})
}

// A round trip without connections: both servers listen, neither is connected.
func BenchmarkFirstVoteAndAnswer(b *testing.B) {
	for b.Loop() {
		book := newBook()
		small, large := startParticipant(b, 1, book, nil), startParticipant(b, 2, book, nil)
		small.Send(2, notification(1, 1))
		large.receives(b, 1, 1)
		large.Send(1, notification(2, 2))
		small.receives(b, 2, 2)
		small.Close()
		large.Close()
	}
}

func BenchmarkVoteAndAnswer(b *testing.B) {
	book := newBook()
	small, large := startParticipant(b, 1, book, nil), startParticipant(b, 2, book, nil)
	for round := int64(0); b.Loop(); round++ {
		small.Send(2, notification(1, round))
		large.receives(b, 1, round)
		large.Send(1, notification(2, round))
		small.receives(b, 2, round)
	}
}
