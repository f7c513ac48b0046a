package peernet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// call is a call of the handler.
type call struct {
	what     string // up, down, message, snapshot
	link     zab.LinkID
	outgoing bool
	observes bool // it came to the port for observers
	message  zab.Message
	snapshot string
}

// server has a quorum port. Its handler checks peernet-N4, and passes all calls on.
type server struct {
	*Links
	t       testing.TB
	address peerwire.Address
	calls   chan call
	moves   chan zab.LinkID
	load    func(io.Reader) (string, error) // nil: loadSnapshot
	refuses zab.Kind                        // whose messages end the link; 0: none
	why     error                           // for this; nil: it was refused
	stuck   sync.Mutex                      // Receive does not return while a test holds it

	mu    sync.Mutex
	state map[zab.LinkID]string
}

func startServer(t testing.TB, change func(*LinksOptions)) *server {
	t.Helper()
	return newServer(t, listen(t, "127.0.0.1:0"), change)
}

func newServer(t testing.TB, l net.Listener, change func(*LinksOptions)) *server {
	t.Helper()
	s := &server{t: t, address: addressOf(l), calls: make(chan call, 1<<16), moves: make(chan zab.LinkID, 1<<10), state: make(map[zab.LinkID]string)}
	o := LinksOptions{Listener: l, Handler: s, Logger: quiet}
	if change != nil {
		change(&o)
	}
	s.Links = NewLinks(o)
	t.Cleanup(s.Shutdown)
	return s
}

// expect checks and changes the state of a link.
func (s *server) expect(link zab.LinkID, want, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state[link] != want {
		s.t.Errorf("link %d is %q, want %q before %q", link, s.state[link], want, next)
	}
	s.state[link] = next
}

func (s *server) Up(link zab.LinkID, origin Origin) {
	s.expect(link, "", "up")
	s.calls <- call{what: "up", link: link, outgoing: origin == Connected, observes: origin == CameToObserve}
}

func (s *server) Down(link zab.LinkID) {
	s.mu.Lock()
	state := s.state[link]
	s.mu.Unlock()
	if state != "" { // otherwise its Connect has failed
		s.expect(link, "up", "down")
	}
	s.calls <- call{what: "down", link: link}
}

func (s *server) Receive(link zab.LinkID, batch []zab.Message) error {
	s.expect(link, "up", "up")
	for _, m := range batch {
		if m.Kind == s.refuses {
			return cmp.Or(s.why, errors.New("refused"))
		}
		s.calls <- call{what: "message", link: link, message: m}
	}
	s.stuck.Lock()
	defer s.stuck.Unlock()
	return nil
}

func (s *server) Snapshot(link zab.LinkID, r io.Reader) error {
	s.expect(link, "up", "up")
	load := s.load
	if load == nil {
		load = loadSnapshot
	}
	text, err := load(r)
	s.calls <- call{what: "snapshot", link: link, snapshot: text}
	return err
}

func (s *server) Moves(link zab.LinkID) { s.moves <- link }

// next takes the next call, which must be of the given kind.
func (s *server) next(what string) call {
	s.t.Helper()
	c := get(s.t, what, s.calls)
	if c.what != what {
		s.t.Fatalf("%+v, want %s", c, what)
	}
	return c
}

// receives checks the next message.
func (s *server) receives(kind zab.Kind, zxid zk.Zxid) zab.Message {
	s.t.Helper()
	m := s.next("message").message
	if m.Kind != kind || m.Zxid != zxid {
		s.t.Fatalf("%s, want %v %d", m.String(), kind, zxid)
	}
	return m
}

// join connects a learner to a leader, and waits for Up at both ends.
func join(learner, leader *server) (toLeader, toLearner zab.LinkID) {
	learner.t.Helper()
	learner.Connect([]peerwire.Address{leader.address}, patience)
	toLeader = learner.next("up").link
	learner.Send(toLeader, &zab.Message{Kind: zab.KindFollowerInfo})
	learner.Flush()
	c := leader.next("up")
	leader.receives(zab.KindFollowerInfo, 0)
	if c.outgoing {
		learner.t.Error("a link that came in is outgoing")
	}
	return toLeader, c.link
}

// pair is a learner joined to a leader.
func pair(t testing.TB) (learner, leader *server, toLeader, toLearner zab.LinkID) {
	t.Helper()
	learner, leader = startServer(t, nil), startServer(t, nil)
	toLeader, toLearner = join(learner, leader)
	return
}

func proposal(zxid int, payload string) *zab.Message {
	return &zab.Message{Kind: zab.KindProposal, Zxid: zk.Zxid(zxid), Payload: []byte(payload)}
}

// writeSnapshot writes count znodes and an end.
func writeSnapshot(w io.Writer, count int) error {
	e := snap.NewStreamEncoder(w)
	_ = e.Begin(1, 0)
	_ = e.Session(7, 4000)
	_ = e.Node("", nil, -1, &zk.StatPersisted{})
	for i := range count {
		_ = e.Node(fmt.Sprintf("/n%d", i), bytes.Repeat([]byte{byte(i)}, 100), -1, &zk.StatPersisted{})
	}
	return e.End(0, zk.Digest{}, 0)
}

func loadSnapshot(r io.Reader) (string, error) {
	info, err := snap.LoadStream(r, "leader", snap.Options{}, snap.Discard{})
	return fmt.Sprintf("%d sessions %d znodes", info.Sessions, info.Nodes), err
}

func TestTenThousandMessagesArriveInOrderUnharmed(t *testing.T) {
	leavesNothing(t)
	learner, leader, toLeader, toLearner := pair(t)
	const count = 10_000
	go func() {
		for i := 1; i <= count; i++ {
			leader.Send(toLearner, proposal(i, strings.Repeat(fmt.Sprintf("<%d>", i), 1+i%97)))
			if i%7 == 0 || i == count {
				leader.Flush()
			}
		}
	}()
	for i := 1; i <= count; i++ {
		learner.Send(toLeader, &zab.Message{Kind: zab.KindAck, Zxid: zk.Zxid(i)})
		if i%11 == 0 || i == count {
			learner.Flush()
		}
	}
	var kept []zab.Message
	for i := 1; i <= count; i++ {
		kept = append(kept, learner.receives(zab.KindProposal, zk.Zxid(i)))
		leader.receives(zab.KindAck, zk.Zxid(i))
	}
	for i, m := range kept { // later reads have not overwritten it
		if want := strings.Repeat(fmt.Sprintf("<%d>", i+1), 1+(i+1)%97); string(m.Payload) != want {
			t.Fatalf("payload %d is %q", i+1, m.Payload)
		}
	}
}

func TestLargeMessagesPass(t *testing.T) {
	leavesNothing(t)
	learner, leader, _, toLearner := pair(t)
	sizes := []int{0, 1, inputBytes - 21, inputBytes - 20, inputBytes, 1 << 20, peerwire.DataBytesMax, 5, 3 << 17}
	for i, size := range sizes {
		leader.Send(toLearner, proposal(i, strings.Repeat(string(rune('a'+i)), size)))
	}
	leader.Flush()
	for i, size := range sizes {
		m := learner.receives(zab.KindProposal, zk.Zxid(i))
		if string(m.Payload) != strings.Repeat(string(rune('a'+i)), size) {
			t.Errorf("payload %d of %d bytes came as %d", i, size, len(m.Payload))
		}
	}
}

// dialServer connects by hand, and says hello.
func dialServer(t testing.TB, s *server) (*net.TCPConn, zab.LinkID) {
	t.Helper()
	socket := dialRaw(t, s.address)
	_, err := socket.Write(bytesOf(&zab.Message{Kind: zab.KindFollowerInfo}))
	must(t, err)
	id := s.next("up").link
	s.receives(zab.KindFollowerInfo, 0)
	return socket, id
}

// bytesOf returns the packets of a learner's messages.
func bytesOf(messages ...*zab.Message) (b []byte) {
	for _, m := range messages {
		b = peerwire.AppendMessage(b, m, peerwire.FromLearner)
	}
	return b
}

func TestPacketsInPieces(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	socket, _ := dialServer(t, s)
	request := &zab.Message{Kind: zab.KindRequest, Request: &zab.Request{Op: zk.OpCreate, Body: []byte("body"),
		Identities: []zk.Identity{{Scheme: "ip", ID: "127.0.0.1"}}}}
	b := bytesOf(&zab.Message{Kind: zab.KindAck, Zxid: 1}, request, &zab.Message{Kind: zab.KindPing, Zxid: 2})
	for _, step := range []int{1, 2, 3, 7, 25, len(b) - 1} {
		for at := 0; at < len(b); at += step {
			_, err := socket.Write(b[at:min(at+step, len(b))])
			must(t, err)
		}
		s.receives(zab.KindAck, 1)
		if m := s.receives(zab.KindRequest, -1); string(m.Request.Body) != "body" || m.Request.Identities[0].ID != "127.0.0.1" {
			t.Errorf("%+v", m.Request)
		}
		s.receives(zab.KindPing, 2)
	}
}

func TestUnknownKindIsIgnored(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	socket, _ := dialServer(t, s)
	for _, kind := range []int32{0, 20, 99, -1} {
		_, err := socket.Write(peerwire.AppendPacket(nil, &peerwire.Packet{Type: kind, Data: []byte("new")}))
		must(t, err)
	}
	_, err := socket.Write(bytesOf(&zab.Message{Kind: zab.KindAck, Zxid: 1}))
	must(t, err)
	s.receives(zab.KindAck, 1)
}

// A leader whose disk hangs takes nothing more from its learners. When it gives up its role they
// must not find that out by its silence.
func TestClosedLinkEndsAtThePeerThoughTheHandlerIsStuck(t *testing.T) {
	leavesNothing(t)
	learner, leader, toLeader, toLearner := pair(t)
	leader.stuck.Lock()
	goOn := sync.OnceFunc(leader.stuck.Unlock)
	defer goOn()
	learner.Send(toLeader, &zab.Message{Kind: zab.KindAck})
	learner.Flush()
	leader.receives(zab.KindAck, 0)
	leader.Send(toLearner, proposal(1, "the last"))
	leader.Close(toLearner)
	learner.receives(zab.KindProposal, 1)
	learner.next("down")
	goOn()
	leader.next("down")
}

// A peer that receives a little now and then cannot keep a closed link, and
// what waits on it, for long.
func TestSlowPeerDoesNotKeepAClosedLink(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, func(o *LinksOptions) { o.SilenceMax = 3 * time.Second })
	socket, id := dialServer(t, s)
	must(t, socket.SetReadBuffer(64<<10))
	for range 600 {
		s.Send(id, proposal(1, strings.Repeat("x", 100_000)))
	}
	s.Flush()
	s.Close(id)
	taken := make(chan int, 1)
	go func() {
		for all := 0; ; {
			awaittest.RealTime(20*time.Millisecond, "the peer is slow")
			n, err := io.ReadFull(socket, make([]byte, 64<<10))
			if all += n; err != nil {
				taken <- all
				return
			}
		}
	}()
	s.next("down")
	awaittest.Until(t, "the link is forgotten", func() bool {
		s.Links.mu.Lock()
		defer s.Links.mu.Unlock()
		return len(s.Links.mu.running) == 0
	})
	if n := <-taken; n > 600*100_000/2 { // the peer would need more than six times SilenceMax for all of it
		t.Errorf("the link has gone when the peer had taken %d bytes", n)
	}
}

func TestMessageThatIsRefusedEndsTheLink(t *testing.T) {
	leavesNothing(t)
	learner, leader := startServer(t, nil), startServer(t, nil)
	learner.refuses = zab.KindProposal
	_, toLearner := join(learner, leader)
	for _, kind := range []zab.Kind{zab.KindUpToDate, zab.KindProposal, zab.KindUpToDate} {
		leader.Send(toLearner, &zab.Message{Kind: kind})
	}
	leader.Flush()
	learner.receives(zab.KindUpToDate, -1)
	learner.next("down")
	leader.next("down")
}

func TestPeerThatDoesNotReadIsCutAtTheLimit(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, func(o *LinksOptions) { o.QueueBytesMax = 20 << 20 })
	_, deaf := dialServer(t, s)
	learner := startServer(t, nil)
	_, well := join(learner, s)
	payload := strings.Repeat("x", 100_000)
	down := false
	for i := 0; !down; i++ {
		if i > 10_000 {
			t.Fatal("a gigabyte waits")
		}
		s.Send(deaf, proposal(i, payload))
		s.Send(well, proposal(i, "small"))
		s.Flush()
		learner.receives(zab.KindProposal, zk.Zxid(i))
		select {
		case c := <-s.calls:
			down = c.what == "down" && c.link == deaf
		default:
		}
	}
	s.Send(well, proposal(-1, "still there"))
	s.Flush()
	learner.receives(zab.KindProposal, -1)
}

// Strangers that claim to be observers read nothing. What waits for all of them
// together is bounded, however many there are.
func TestPeersThatDoNotReadHaveALimitTogether(t *testing.T) {
	leavesNothing(t)
	const deafs, limit = 12, 20 << 20
	s := startServer(t, func(o *LinksOptions) { o.QueueBytesMax = limit })
	var deaf []zab.LinkID
	for range deafs {
		_, link := dialServer(t, s)
		deaf = append(deaf, link)
	}
	payload, down, most := strings.Repeat("x", 100_000), 0, int64(0)
	for i := range queuesMax * limit / len(payload) { // three times as much on each as may wait
		for _, link := range deaf {
			s.Send(link, proposal(i, payload))
			most = max(most, s.waiting.Load())
		}
		s.Flush()
		for len(s.calls) > 0 {
			if c := <-s.calls; c.what == "down" {
				down++
			}
		}
	}
	if most > queuesMax*limit || down == 0 {
		t.Errorf("%d bytes have waited, and %d links have ended", most, down)
	}
}

// A learner that lacks a lot is sent it in one step, however many other links there
// are, and however much waits for peers on another host that read nothing.
func TestLearnerThatLacksMuchIsSentItAmongManyThatDoNotRead(t *testing.T) {
	leavesNothing(t)
	const deafs, limit = 60, 20 << 20
	leader := startServer(t, func(o *LinksOptions) { o.QueueBytesMax = limit })
	var deaf []zab.LinkID
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range deafs {
		socket, err := elsewhere.DialContext(t.Context(), "tcp", leader.address.String())
		must(t, err)
		t.Cleanup(func() { socket.Close() })
		_, err = socket.Write(bytesOf(&zab.Message{Kind: zab.KindAck, Zxid: 1}))
		must(t, err)
		deaf = append(deaf, leader.next("up").link)
		leader.receives(zab.KindAck, 1)
	}
	payload := strings.Repeat("x", 100_000)
	for i := range queuesMax * limit / deafs / len(payload) { // as much as may wait
		for _, link := range deaf {
			leader.Send(link, proposal(i, payload))
		}
	}
	learner := startServer(t, nil)
	_, toLearner := join(learner, leader)
	const lacks = limit * 9 / 10 / 100_000
	for i := range lacks {
		leader.Send(toLearner, proposal(i, payload))
	}
	leader.Flush()
	for i := range lacks {
		learner.receives(zab.KindProposal, zk.Zxid(i))
	}
}

// A server that sends a lot in parts waits for a slow peer, but not for one that is gone.
func TestAwaitSentEndsWhenAllHasLeftOrTheLinkIsGone(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	s.AwaitSent(99) // never existed
	learner := startServer(t, nil)
	_, well := join(learner, s)
	s.Send(well, proposal(1, "small"))
	s.Flush()
	s.AwaitSent(well)
	learner.receives(zab.KindProposal, 1)

	_, deaf := dialServer(t, s)
	for i := range 100 { // more than a socket takes
		s.Send(deaf, proposal(i, strings.Repeat("x", 500_000)))
	}
	s.Flush()
	sent := make(chan bool, 1)
	go func() { s.AwaitSent(deaf); sent <- true }()
	none(t, "the end of the waiting for a peer that does not read", sent)
	s.Cut()
	get(t, "the end of the waiting for a peer that is gone", sent)
}

func TestPeerThatTakesNothingIsCutAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := pipes{}.listen(1)
		s := newServer(t, port, func(o *LinksOptions) { o.SilenceMax = 5 * time.Second })
		dialPipe(t, port, bytesOf(&zab.Message{Kind: zab.KindFollowerInfo}))
		deaf := s.next("up").link
		s.receives(zab.KindFollowerInfo, 0)
		began := time.Now()
		for range 200 {
			s.Send(deaf, proposal(1, strings.Repeat("x", 100_000)))
		}
		s.Flush()
		if c, took := s.next("down"), time.Since(began); c.link != deaf || took != s.o.SilenceMax {
			t.Errorf("%+v after %v", c, took)
		}
	})
}

func TestCloseComesAfterWhatWasSent(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	for _, count := range []int{1, 5000} {
		socket, id := dialServer(t, s)
		stop := make(chan struct{})
		go func() { // a peer that talks on must not make the kernel forget what is sent to it
			defer close(stop)
			for range 20_000 {
				if _, err := socket.Write(bytesOf(&zab.Message{Kind: zab.KindAck})); err != nil {
					return
				}
			}
		}()
		var want []byte
		for i := range count {
			m := proposal(i, strings.Repeat("x", 1000))
			want = peerwire.AppendMessage(want, m, peerwire.FromLeader)
			s.Send(id, m)
		}
		s.Close(id)
		s.Send(id, proposal(-1, "late"))
		s.Flush()
		got := make([]byte, len(want))
		_, err := io.ReadFull(socket, got)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Error("other bytes came")
		}
		if n, err := socket.Read(got); n != 0 || err != io.EOF {
			t.Errorf("after it came %d bytes, %v", n, err)
		}
		socket.Close()
		<-stop
		for c := get(t, "down", s.calls); c.what != "down"; c = get(t, "down", s.calls) {
			if c.what != "message" {
				t.Fatalf("%+v", c)
			}
		}
	}
}

func TestShutdownWaitsForNoPeer(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, func(o *LinksOptions) { o.SilenceMax = time.Hour })
	_, closed := dialServer(t, s)
	for range 200 {
		s.Send(closed, proposal(1, strings.Repeat("x", 100_000)))
	}
	s.Close(closed)
	s.next("down")
	_, silent := dialServer(t, s)
	dialRaw(t, s.address)
	begun := time.Now()
	s.Shutdown()
	if took := time.Since(begun); took > patience/2 { // a wait for the peer would last an hour
		t.Errorf("it took %v", took)
	}
	if c := s.next("down"); c.link != silent {
		t.Errorf("%+v", c)
	}
}

func TestEndOfAPeerIsSeenAtOnce(t *testing.T) {
	leavesNothing(t)
	learner, leader, toLeader, toLearner := pair(t)
	leader.Shutdown()
	if c := learner.next("down"); c.link != toLeader {
		t.Errorf("%+v", c)
	}
	if c := leader.next("down"); c.link != toLearner {
		t.Errorf("%+v", c)
	}
	learner.Send(toLeader, &zab.Message{Kind: zab.KindAck})
	learner.Flush()
	learner.Close(toLeader)
	none(t, "a second down", learner.calls)
}

func TestConnectWaitsForAPortThatOpensLater(t *testing.T) {
	leavesNothing(t)
	board, name := newSwitchboard(), peerwire.Address{Host: "leader", Port: 1}
	learner := startServer(t, func(o *LinksOptions) { o.Dial = board.dial })
	want := learner.Connect([]peerwire.Address{name, nobody}, patience)
	get(t, "an attempt that failed", board.tried)
	none(t, "an answer of nobody", learner.calls)
	leader := newServer(t, board.plug(t, name), nil)
	if c := learner.next("up"); !c.outgoing || c.link != want {
		t.Errorf("%+v, want link %d", c, want)
	}
	learner.Send(want, &zab.Message{Kind: zab.KindObserverInfo})
	learner.Flush()
	leader.next("up")
}

func TestConnectThatFailsIsToldOnce(t *testing.T) {
	leavesNothing(t)
	learner := startServer(t, nil)
	for _, addresses := range [][]peerwire.Address{{nobody}, {}, {nobody, nobody}} {
		want := learner.Connect(addresses, 30*time.Millisecond)
		if c := learner.next("down"); c.link != want {
			t.Errorf("%+v, want link %d", c, want)
		}
	}
	none(t, "a second answer", learner.calls)
}

func TestConnectThatHangsEndsAtItsLimit(t *testing.T) {
	leavesNothing(t)
	learner := startServer(t, func(o *LinksOptions) {
		o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	want := learner.Connect([]peerwire.Address{{Host: "nowhere", Port: 1}}, 30*time.Millisecond)
	if c := learner.next("down"); c.link != want {
		t.Errorf("%+v, want link %d", c, want)
	}
}

func TestCancelledConnectIsNotTold(t *testing.T) {
	leavesNothing(t)
	learner, leader := startServer(t, nil), startServer(t, nil)
	first := learner.Connect([]peerwire.Address{nobody}, patience)
	second := learner.Connect([]peerwire.Address{leader.address}, patience)
	if c := learner.next("up"); c.link != second || second == first {
		t.Errorf("%+v", c)
	}
	third := learner.Connect([]peerwire.Address{nobody}, patience) // otherwise its end may come before
	learner.Close(third)
	none(t, "the end of a cancelled Connect", learner.calls)
	learner.Connect([]peerwire.Address{nobody}, patience)
}

func TestUpAndDownOnceWithEitherClosingFirst(t *testing.T) {
	leavesNothing(t)
	learner, leader := startServer(t, nil), startServer(t, nil)
	for i := range 100 {
		toLeader, toLearner := join(learner, leader)
		var all sync.WaitGroup
		for _, end := range []func(){
			func() { learner.Close(toLeader) },
			func() { leader.Close(toLearner) },
			func() {
				leader.Send(toLearner, proposal(1, "x"))
				leader.Flush()
			},
			func() {
				learner.Send(toLeader, &zab.Message{Kind: zab.KindAck})
				learner.Flush()
			},
		}[i%2:] {
			all.Go(end)
		}
		all.Wait()
		for _, s := range []*server{learner, leader} {
			for c := get(t, "down", s.calls); c.what != "down"; c = get(t, "down", s.calls) {
				if c.what != "message" {
					t.Fatalf("%+v", c)
				}
			}
		}
	}
	none(t, "more at the learner", learner.calls)
	none(t, "more at the leader", leader.calls)
}

// strangePackets are first bytes that no learner sends.
var strangePackets = map[string]string{
	"a client":         "\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x75\x30",
	"http":             "GET / HTTP/1.1\r\nHost: conclave\r\n\r\n",
	"ruok":             "ruok",
	"nothing":          "",
	"negative length":  "\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xfe",
	"length too large": "\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
	"length not there": "\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x1f\xff\xfehello",
	"many identities":  "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f\xff\xff\xff",
	"old hello":        "\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff",
	"short touches":    "\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01x\xff\xff\xff\xff",
	"many zeroes":      strings.Repeat("\x00", 1000) + "\xff",
	"many ones":        strings.Repeat("\xff", 200_000),
}

func TestGarbageOnTheQuorumPortComesToNobodysNotice(t *testing.T) {
	leavesNothing(t)
	learner, leader, toLeader, _ := pair(t)
	for name, bytes := range strangePackets {
		t.Run(name, func(t *testing.T) {
			socket := dialRaw(t, leader.address)
			_, _ = socket.Write([]byte(bytes))
			_ = socket.CloseWrite()
			ends(t, socket)
			learner.Send(toLeader, &zab.Message{Kind: zab.KindAck, Zxid: 1})
			learner.Flush()
			leader.receives(zab.KindAck, 1)
		})
	}
}

func TestGarbageAfterGoodMessagesEndsTheLink(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	for name, bytes := range strangePackets {
		t.Run(name, func(t *testing.T) {
			socket, id := dialServer(t, s)
			_, _ = socket.Write(append(bytesOf(&zab.Message{Kind: zab.KindAck, Zxid: 1}), bytes...))
			_ = socket.CloseWrite()
			s.receives(zab.KindAck, 1)
			if c := s.next("down"); c.link != id {
				t.Errorf("%+v", c)
			}
			ends(t, socket)
		})
	}
}

func TestSilentConnectionsKeepNoLearnerOut(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	for range 3 * lobby.Max {
		_, err := dialRaw(t, s.address).Write([]byte{0, 0, 0})
		must(t, err)
	}
	join(startServer(t, nil), s)
	if n := s.lobby.Count(); n > lobby.Max {
		t.Errorf("%d connections wait", n)
	}
}

func TestConnectionWithoutAMessageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := pipes{}.listen(1)
		s := newServer(t, port, func(o *LinksOptions) { o.SilenceMax = 5 * time.Second })
		began := time.Now()
		socket := dialPipe(t, port, []byte{0, 0, 0, 11})
		if ends(t, socket); time.Since(began) != s.o.SilenceMax {
			t.Errorf("it has ended after %v", time.Since(began))
		}

		// A peer that has sent a message may be silent after that.
		dialPipe(t, port, bytesOf(&zab.Message{Kind: zab.KindFollowerInfo}))
		id := s.next("up").link
		s.receives(zab.KindFollowerInfo, 0)
		time.Sleep(time.Hour)
		none(t, "the end of a silent link", s.calls)
		s.Close(id)
	})
}

// plain is a connection without access to its descriptor, like a TLS connection.
type plain struct{ net.Conn }

func TestConnectionsWithoutDescriptorCarryAllInOrder(t *testing.T) {
	leavesNothing(t)
	learner := startServer(t, func(o *LinksOptions) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			socket, err := new(net.Dialer).DialContext(ctx, network, address)
			return plain{socket}, err
		}
	})
	leader := startServer(t, nil)
	toLeader, _ := join(learner, leader)
	for i := range 1000 {
		learner.Send(toLeader, &zab.Message{Kind: zab.KindAck, Zxid: zk.Zxid(i)})
		learner.Flush()
	}
	learner.Close(toLeader)
	for i := range 1000 {
		leader.receives(zab.KindAck, zk.Zxid(i))
	}
	leader.next("down")
}

// sink receives messages, and reports after every sinkStep of them.
type sink struct {
	links chan zab.LinkID
	steps chan struct{}
	count int
}

const sinkStep = 1024

func (s *sink) Up(link zab.LinkID, _ Origin)             { s.links <- link }
func (s *sink) Down(zab.LinkID)                          {}
func (s *sink) Moves(zab.LinkID)                         {}
func (s *sink) Snapshot(_ zab.LinkID, _ io.Reader) error { return nil }

func (s *sink) Receive(_ zab.LinkID, batch []zab.Message) error {
	for s.count += len(batch); s.count >= sinkStep; s.count -= sinkStep {
		s.steps <- struct{}{}
	}
	return nil
}

// benchmarkLink sends batches of messages from a learner to a leader, with a
// Flush after each and at most 8 steps on their way.
func benchmarkLink(b *testing.B, batch int, m *zab.Message) {
	leader := &sink{links: make(chan zab.LinkID, 1), steps: make(chan struct{}, 8)}
	learner := &sink{links: make(chan zab.LinkID, 1)}
	to := NewLinks(LinksOptions{Listener: listen(b, "127.0.0.1:0"), Handler: leader, Logger: quiet})
	defer to.Shutdown()
	from := NewLinks(LinksOptions{Listener: listen(b, "127.0.0.1:0"), Handler: learner, Logger: quiet})
	defer from.Shutdown()
	from.Connect([]peerwire.Address{addressOf(to.o.Listener)}, patience)
	link := <-learner.links
	b.ReportAllocs()
	b.ResetTimer()
	sent, steps := 0, 0
	for sent < b.N || sent%sinkStep != 0 {
		from.Send(link, m)
		if sent++; sent%batch == 0 {
			from.Flush()
		}
		if sent%sinkStep == 0 && sent/sinkStep > 8 {
			<-leader.steps
			steps++
		}
	}
	from.Flush()
	for ; steps < sent/sinkStep; steps++ {
		<-leader.steps
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkLink(b *testing.B) {
	for _, batch := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("ack/batch=%d", batch), func(b *testing.B) {
			benchmarkLink(b, batch, &zab.Message{Kind: zab.KindAck, Zxid: 5})
		})
		b.Run(fmt.Sprintf("proposal/batch=%d", batch), func(b *testing.B) {
			benchmarkLink(b, batch, proposal(5, strings.Repeat("x", 200)))
		})
	}
}

// Observers have a port of their own, and their links are reported with their own origin.
func TestLinksOfThePortForObserversAreToldApart(t *testing.T) {
	leavesNothing(t)
	at := listen(t, "127.0.0.1:0")
	must(t, at.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	master := startServer(t, func(o *LinksOptions) { o.Observers = at })
	observer, follower := startServer(t, nil), startServer(t, nil)
	observer.ConnectOnce([]peerwire.Address{addressOf(at)}, patience)
	up := observer.next("up")
	observer.Send(up.link, &zab.Message{Kind: zab.KindObserverInfo})
	observer.Flush()
	if c := master.next("up"); !c.observes || c.outgoing || !up.outgoing {
		t.Errorf("the link of an observer is told of as %+v, and at its own end as %+v", c, up)
	}
	master.receives(zab.KindObserverInfo, 0)
	join(follower, master)
	master.Shutdown()
	observer.next("down")
	if _, err := at.Accept(); !errors.Is(err, net.ErrClosed) { // another process may have the number by now
		t.Errorf("the port for observers is open after the end: %v", err)
	}
}

// There are other observer masters besides the one that does not answer.
func TestConnectOnceDoesNotTryAgain(t *testing.T) {
	leavesNothing(t)
	observer := startServer(t, nil)
	began := time.Now()
	id := observer.ConnectOnce([]peerwire.Address{nobody}, patience)
	if c := get(t, "the end of the attempt", observer.calls); c.what != "down" || c.link != id {
		t.Errorf("an attempt that is refused ends with %+v, want %d down", c, id)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}
