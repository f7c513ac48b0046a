package peernet

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// A stranger may act as a learner as often as it likes. The number of links from
// one host is limited, so a learner on another host is accepted.
func TestStrangersOfOneHostKeepNoLearnerOut(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	for range linksPerHostMax {
		dialServer(t, s)
	}
	hello := bytesOf(&zab.Message{Kind: zab.KindAck, Zxid: 1})
	socket := dialRaw(t, s.address)
	_, err := socket.Write(hello)
	must(t, err)
	ends(t, socket)
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	learner, err := elsewhere.DialContext(t.Context(), "tcp", s.address.String())
	must(t, err)
	defer learner.Close()
	_, err = learner.Write(hello)
	must(t, err)
	if c := s.next("up"); c.link == 0 {
		t.Errorf("%+v", c)
	}
	s.receives(zab.KindAck, 1)
}

// A stranger takes no more memory than a hello needs, however long the packets of learners may be, and
// whether its packet is long because of data or of identities.
func TestStrangersBeginWithNoLongPacket(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, func(o *LinksOptions) { o.DataBytesMax, o.SilenceMax = 64<<20, time.Hour })
	head := func(data, identities int32) []byte {
		b := jute.AppendLong(jute.AppendInt(nil, int32(zab.KindAck)), 1)
		return jute.AppendInt(jute.AppendInt(b, data), identities)
	}
	for what, packet := range map[string][]byte{
		"data":       head(64<<20, 0),
		"an id":      jute.AppendInt(head(-1, 1), 1<<20),
		"identities": append(head(-1, peerwire.AuthBytesMax/8), make([]byte, inputBytes)...),
	} {
		socket := dialRaw(t, s.address)
		_, _ = socket.Write(packet) // it may be gone by now
		must(t, socket.SetDeadline(time.Now().Add(patience/4)))
		if _, err := io.Copy(io.Discard, socket); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a stranger goes on with a packet of too much of %s", what)
		}
	}
	hello := append(head(-1, 1000), make([]byte, 8*1000)...)
	long := slices.Concat(head(1<<20, 0), make([]byte, 1<<20), hello)
	for _, served := range []bool{false, true} {
		socket := dialRaw(t, s.address)
		_, err := socket.Write(hello)
		must(t, err)
		link := s.next("up").link
		s.receives(zab.KindAck, 1)
		if served {
			s.Send(link, &zab.Message{Kind: zab.KindUpToDate})
		}
		_, _ = socket.Write(long)
		if !served {
			s.next("down") // a stranger may say hello, too
			continue
		}
		s.receives(zab.KindAck, 1) // of a learner's clients
		s.receives(zab.KindAck, 1)
	}
}
