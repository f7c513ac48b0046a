package peernet

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
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

// A server acts as another neither on the quorum port nor on the election port; as itself it
// may, and as one that no configuration names.
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

	b := newBook()
	member := newParticipant(t, 1, passes{listen(t, "127.0.0.1:0"), "127.0.0.1"}, b, nil)
	b.set(5, peerwire.Address{Host: "192.0.2.5", Port: 1})
	b.set(6, peerwire.Address{Host: "127.0.0.1", Port: 1})
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
