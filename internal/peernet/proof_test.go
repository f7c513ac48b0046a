package peernet

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/zab"
)

var between = sasl.Digest{Protocol: "zookeeper-quorum", Host: "zk-quorum-sasl-md5"}

// proving returns the Proofs of a server with a password; "" proves nothing.
func proving(password string, must bool) *Proofs {
	p := &Proofs{Must: must, Server: func() sasl.Server {
		return sasl.DigestServer(between, func(string) (string, bool) { return "between", true })
	}}
	if password != "" {
		p.Client = func(string) (sasl.Client, error) { return sasl.DigestClient(between, "server", password), nil }
	}
	return p
}

func TestLinksOfServersThatProveThemselves(t *testing.T) {
	leavesNothing(t)
	leader := startServer(t, func(o *LinksOptions) { o.Proofs = proving("between", true) })
	learner := startServer(t, func(o *LinksOptions) { o.Proofs = proving("between", true) })
	toLeader, toLearner := join(learner, leader)
	learner.Send(toLeader, &zab.Message{Kind: zab.KindAck, Zxid: 7})
	learner.Flush()
	leader.receives(zab.KindAck, 7)
	leader.Send(toLearner, proposal(8, "after"))
	leader.Flush()
	learner.receives(zab.KindProposal, 8)
}

// If a learner must prove itself and does not, or fails, the leader accepts none of
// its messages.
func TestLearnersThatProveNothingAreRefused(t *testing.T) {
	leavesNothing(t)
	leader := startServer(t, func(o *LinksOptions) { o.Proofs = proving("between", true) })
	for _, password := range []string{"", "wrong"} {
		learner := startServer(t, func(o *LinksOptions) { o.Proofs = proving(password, false) })
		limit := patience
		if password != "" { // it tries again until then
			limit = 300 * time.Millisecond
		}
		learner.Connect([]peerwire.Address{leader.address}, limit)
		if password == "" { // it considers itself connected, sends something, and is disconnected
			up := learner.next("up")
			learner.Send(up.link, &zab.Message{Kind: zab.KindFollowerInfo})
			learner.Flush()
		}
		learner.next("down")
	}
	none(t, "call", leader.calls)
}

// While proofs are optional, servers without them are accepted, and a server that
// offers a proof must give a valid one.
func TestServersOfBeforeTheChangeAreTakenWhileNotAllMust(t *testing.T) {
	leavesNothing(t)
	for _, proofs := range []*Proofs{nil, proving("", false), proving("between", false)} {
		leader := startServer(t, func(o *LinksOptions) { o.Proofs = proving("between", false) })
		learner := startServer(t, func(o *LinksOptions) { o.Proofs = proofs })
		toLeader, _ := join(learner, leader)
		learner.Send(toLeader, &zab.Message{Kind: zab.KindAck, Zxid: 7})
		learner.Flush()
		leader.receives(zab.KindAck, 7)
	}
}

func TestVotesOfServersThatProveThemselves(t *testing.T) {
	for name, c := range map[string]struct{ small, large *Proofs }{
		"both must":            {proving("between", true), proving("between", true)},
		"large proves nothing": {proving("", false), nil},
		"small proves nothing": {nil, proving("", false)},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			b := newBook()
			small := startParticipant(t, 1, b, func(o *VotesOptions) { o.Proofs = c.small })
			large := startParticipant(t, 2, b, func(o *VotesOptions) { o.Proofs = c.large })
			small.Send(2, notification(1, 1)) // it dials, and is dialed back
			large.receives(t, 1, 1)
			large.Send(1, notification(2, 2))
			small.receives(t, 2, 2)
		})
	}
}

// A stranger that claims to be server 3 replaces no connection, and its votes are not received.
func TestForgedVotesAreNotReceived(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	v := startParticipant(t, 1, b, func(o *VotesOptions) { o.Proofs = proving("between", true) })
	initial, err := appendInitial(peerwire.Initial{Server: 3, Addresses: []peerwire.Address{v.address}})
	must(t, err)
	n := notification(3, 9)
	frame := peerwire.AppendNotification(nil, &n)
	nonsense := peerwire.AppendProof(nil, peerwire.ProofGoesOn, []byte("nonsense"))
	claim := peerwire.AppendProof(nil, peerwire.ProofHolds, nil)
	for _, more := range [][]byte{frame, nonsense, append(claim, frame...)} {
		socket := dialRaw(t, v.address)
		_, err = socket.Write(append(append([]byte{}, initial...), more...))
		must(t, err)
		_ = socket.CloseWrite() // it may be gone by now
		_ = socket.SetReadDeadline(time.Now().Add(10 * time.Second))
		var timeout net.Error
		if _, err := io.Copy(io.Discard, socket); errors.As(err, &timeout) && timeout.Timeout() {
			t.Error("the connection stays")
		}
	}
	none(t, "vote", v.notices)
}

// shakes is a connection with a handshake, which cannot be repeated if it fails.
type shakes struct {
	net.Conn
	once sync.Once
	err  error
}

func (s *shakes) Prove() (string, error) {
	s.once.Do(func() { _, s.err = io.ReadFull(s.Conn, make([]byte, 1)) })
	return "", s.err
}

func (s *shakes) Read(b []byte) (int, error) {
	if _, err := s.Prove(); err != nil {
		return 0, err
	}
	return s.Conn.Read(b)
}

// While proofs are optional, a server with a slow handshake is accepted, too, whether or not it
// proves itself.
func TestSlowHandshakeIsNoSilenceOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, proofs := range []*Proofs{nil, proving("between", false)} {
			a, b := net.Pipe()
			go func() {
				time.Sleep(2 * proofWait)
				_, _ = b.Write([]byte{0x16})
				if proofs.dialed(b, "") == nil {
					_, _ = b.Write([]byte("hello"))
				}
			}()
			got := make([]byte, 5)
			admitted, err := proving("between", false).accepted(&shakes{Conn: a}, time.Now().Add(time.Minute))
			if err == nil {
				_, err = io.ReadFull(admitted, got)
			}
			if err != nil || string(got) != "hello" {
				t.Errorf("it says %q: %v", got, err)
			}
			a.Close()
			b.Close()
		}
	})
}

// A server that sends nothing in the exchange delays nobody, and is disconnected.
func TestSilentProofsEnd(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	if _, err := proving("", true).accepted(a, time.Now().Add(20*time.Millisecond)); err == nil {
		t.Error("it is taken")
	}
}

func FuzzProofs(f *testing.F) {
	f.Add(peerwire.AppendProof(nil, peerwire.ProofGoesOn, nil))
	f.Fuzz(func(t *testing.T, said []byte) {
		a, b := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		go func() {
			_, _ = b.Write(said)
			b.Close()
		}()
		if _, err := proving("", true).accepted(a, time.Now().Add(time.Minute)); err == nil {
			t.Fatal("it is taken")
		}
		a.Close()
	})
}
