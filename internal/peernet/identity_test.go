package peernet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/zab"
)

// passes is a listener whose connections come with a certificate for one host.
type passes struct {
	net.Listener
	host string
}

type pass struct {
	net.Conn
	host string
}

func (p passes) Accept() (net.Conn, error) {
	socket, err := p.Listener.Accept()
	return pass{socket, p.host}, err
}

// IsOf implements identified.
func (p pass) IsOf(hosts []string) error {
	if !slices.Contains(hosts, p.host) {
		return fmt.Errorf("it is for %s: %w", p.host, errors.ErrUnsupported)
	}
	return nil
}

// A server cannot act as another one, neither on the quorum port nor on the election port.
// It can act as itself, and as a server that no configuration names.
func TestServersActAsThemselvesAlone(t *testing.T) {
	leavesNothing(t)
	leader := newServer(t, passes{listen(t, "127.0.0.1:0"), "two"}, func(o *LinksOptions) {
		o.Hosts = func(id quorum.ID) []string {
			return map[quorum.ID][]string{1: {"one"}, 2: {"zwei", "two"}}[id]
		}
	})
	for _, kind := range []zab.Kind{zab.KindFollowerInfo, zab.KindObserverInfo} {
		for id, may := range map[quorum.ID]bool{1: false, 2: true, 9: true} {
			socket := dialRaw(t, leader.address)
			hello := zab.Message{Kind: kind, Hello: zab.Hello{Server: id}}
			_, err := socket.Write(peerwire.AppendMessage(nil, &hello, peerwire.FromLearner))
			must(t, err)
			if !may {
				ends(t, socket)
				none(t, "a link", leader.calls)
				continue
			}
			leader.next("up")
			leader.next("message")
			socket.Close()
			leader.next("down")
		}
	}

	member := newParticipant(t, 1, passes{listen(t, "127.0.0.1:0"), "127.0.0.1"}, newBook(), func(o *VotesOptions) {
		o.Hosts = func(id quorum.ID) []string {
			return map[quorum.ID][]string{5: {"192.0.2.5"}, 6: {"127.0.0.1"}}[id]
		}
	})
	for id, may := range map[quorum.ID]bool{5: false, 6: true, 9: true} {
		raw := dialParticipant(t, member, id, peerwire.Address{Host: "127.0.0.1", Port: 1})
		raw.send(notification(id, int64(id)))
		if may {
			member.receives(t, id, int64(id))
			raw.Close()
			continue
		}
		ends(t, raw)
		none(t, "a vote", member.notices)
	}
}

// A stranger that was accepted under a number is disconnected once a configuration names that
// number and the stranger's certificate is for none of its hosts. So is a member that was
// removed, where only members are accepted.
func TestConfigurationEndsConnectionsOfStrangers(t *testing.T) {
	leavesNothing(t)
	var named atomic.Pointer[map[quorum.ID][]string]
	named.Store(&map[quorum.ID][]string{})
	hosts := func(id quorum.ID) []string { return (*named.Load())[id] }
	leader := newServer(t, passes{listen(t, "127.0.0.1:0"), "stranger"}, func(o *LinksOptions) { o.Hosts = hosts })
	member := newParticipant(t, 1, passes{listen(t, "127.0.0.1:0"), "stranger"}, newBook(), func(o *VotesOptions) { o.Hosts = hosts })
	link := func(id quorum.ID) net.Conn {
		socket := dialRaw(t, leader.address)
		hello := zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: id}}
		_, err := socket.Write(peerwire.AppendMessage(nil, &hello, peerwire.FromLearner))
		must(t, err)
		leader.next("up")
		leader.next("message")
		return socket
	}
	vote := func(id quorum.ID) rawPeer {
		raw := dialParticipant(t, member, id, peerwire.Address{Host: "127.0.0.1", Port: 1})
		raw.send(notification(id, int64(id)))
		member.receives(t, id, int64(id))
		return raw
	}
	links, votes, goes := []net.Conn{link(2), link(3)}, []rawPeer{vote(2), vote(3)}, []net.Conn{link(4), vote(4)}
	named.Store(&map[quorum.ID][]string{3: {"other", "stranger"}, 4: {"four"}})
	leader.Recheck()
	member.Recheck()
	for _, socket := range goes {
		ends(t, socket)
	}
	leader.next("down")
	none(t, "another end", leader.calls)
	for _, socket := range links {
		_, err := socket.Write(peerwire.AppendMessage(nil, &zab.Message{Kind: zab.KindAck, Zxid: 1}, peerwire.FromLearner))
		must(t, err)
		leader.receives(zab.KindAck, 1)
		socket.Close()
		leader.next("down")
	}
	for i, raw := range votes {
		raw.send(notification(1, int64(10+i)))
		member.receives(t, quorum.ID(2+i), int64(10+i))
		raw.Close()
	}
}

// A stranger was accepted under a number, and dialed back where it said it listens, with a certificate
// for that host. It must not pass for the member to which a configuration gives the number: neither on
// that connection, nor when the member is down and dialed.
func TestMembersAreNotLookedForWhereAStrangerIs(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	var named atomic.Pointer[map[quorum.ID][]string]
	named.Store(&map[quorum.ID][]string{})
	strange := listen(t, "127.0.0.1:0")
	must(t, strange.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	tried := make(chan string, 1000)
	member := newParticipant(t, 5, passes{listen(t, "127.0.0.1:0"), "stranger"}, b, func(o *VotesOptions) {
		o.Hosts = func(id quorum.ID) []string { return (*named.Load())[id] }
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			tried <- address
			if !strings.HasPrefix(address, "stranger:") {
				return nil, syscall.ECONNREFUSED
			}
			return new(net.Dialer).DialContext(ctx, network, strange.Addr().String()) // and its certificate is for that host
		}
	})
	ends(t, dialParticipant(t, member, 4, peerwire.Address{Host: "stranger", Port: 7}))
	if at := get(t, "a dial", tried); at != "stranger:7" {
		t.Fatal(at)
	}
	socket, err := strange.Accept()
	must(t, err)
	defer socket.Close()
	must(t, socket.SetDeadline(time.Now().Add(patience)))
	raw := rawPeer{t, socket.(*net.TCPConn)}
	_, err = readInitial(raw)
	must(t, err)
	raw.send(notification(4, 1))
	member.receives(t, 4, 1)

	named.Store(&map[quorum.ID][]string{4: {"four"}})
	b.set(4, peerwire.Address{Host: "four", Port: 4})
	member.Reconfigured()
	member.Recheck()
	ends(t, raw)
	member.Send(4, notification(5, 2))
	for range 5 {
		if at := get(t, "an attempt", tried); at != "four:4" {
			t.Fatalf("server 4 is looked for at %s", at)
		}
	}
}

// A configuration may begin to name a number while a stranger with this number is being checked.
func TestStrangersAreJudgedByTheConfigurationOfNow(t *testing.T) {
	leavesNothing(t)
	b := newBook()
	var member atomic.Pointer[participant]
	var named atomic.Bool
	member.Store(newParticipant(t, 5, passes{listen(t, "127.0.0.1:0"), "stranger"}, b, func(o *VotesOptions) {
		o.Hosts = func(id quorum.ID) []string {
			if !named.CompareAndSwap(false, true) {
				return []string{"eight"}
			}
			b.set(8, peerwire.Address{Host: "eight", Port: 8})
			member.Load().Reconfigured()
			member.Load().Recheck()
			return nil // as before
		}
		o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	}))
	raw := dialParticipant(t, member.Load(), 8, peerwire.Address{Host: "stranger", Port: 1})
	n := notification(8, 1)
	_, _ = raw.Write(peerwire.AppendNotification(nil, &n)) // it may be gone by now
	ends(t, raw)
	none(t, "a vote", member.Load().notices)
}

// ticket is a proof made by a third party, whose name can be trusted.
type ticket struct{ name string }

func (k *ticket) Next(token []byte) ([]byte, bool, error) {
	k.name = string(token)
	return nil, true, nil
}

func (k *ticket) Names() (proved, acts string) { return k.name, k.name }

// A server that proved its host by Kerberos cannot act as a server of another host.
func TestServersThatProveTheirHostActAsThemselvesAlone(t *testing.T) {
	leavesNothing(t)
	proofs := &Proofs{Must: true, Server: func() sasl.Server { return &ticket{} },
		Admit: func(proved, _ string) (string, error) { return proved, nil }}
	hosts := func(id quorum.ID) []string { return map[quorum.ID][]string{2: {"two"}, 3: {"drei", "Three"}}[id] }
	leader := startServer(t, func(o *LinksOptions) { o.Proofs, o.Hosts = proofs, hosts })
	member := newParticipant(t, 1, listen(t, "127.0.0.1:0"), newBook(), func(o *VotesOptions) { o.Proofs, o.Hosts = proofs, hosts })
	proof := peerwire.AppendProof(nil, peerwire.ProofGoesOn, []byte("three"))
	for id, may := range map[quorum.ID]bool{2: false, 3: true, 9: true} {
		link := dialRaw(t, leader.address)
		hello := zab.Message{Kind: zab.KindFollowerInfo, Hello: zab.Hello{Server: id}}
		_, err := link.Write(peerwire.AppendMessage(proof, &hello, peerwire.FromLearner))
		must(t, err)
		_, _, err = receiveProof(link)
		must(t, err)
		vote := dialParticipant(t, member, id, peerwire.Address{Host: "127.0.0.1", Port: 1})
		_, err = vote.Write(proof)
		must(t, err)
		_, _, err = receiveProof(vote)
		must(t, err)
		vote.send(notification(id, int64(id)))
		if may {
			leader.next("up")
			leader.next("message")
			member.receives(t, id, int64(id))
			link.Close()
			vote.Close()
			leader.next("down")
			continue
		}
		ends(t, link)
		ends(t, vote)
		none(t, "a link", leader.calls)
		none(t, "a vote", member.notices)
	}
}
