package peernet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// TestStrangersDoNotFillTheLog of a server, whichever of its ports they reach.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	const number = 7
	same, err := appendInitial(peerwire.Initial{Server: number, Addresses: []peerwire.Address{{Host: "127.0.0.1", Port: 1}}})
	must(t, err)
	tooLong := append(make([]byte, 12), 0x7f, 0xff, 0xff, 0xff) // kind, zxid, length of the data
	for name, hello := range map[string][]byte{"quorum": tooLong, "election": same} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			var log bytes.Buffer
			l, logger := listen(t, "127.0.0.1:0"), slog.New(slog.NewTextHandler(&log, nil))
			var end func()
			if name == "quorum" {
				end = NewLinks(LinksOptions{Listener: l, Handler: &server{t: t}, Logger: logger}).Shutdown
			} else {
				v, err := NewVotes(VotesOptions{ID: number, Listener: l, Logger: logger})
				must(t, err)
				end = v.Close
			}
			for range 50 {
				socket, err := net.Dial("tcp", l.Addr().String())
				must(t, err)
				must(t, socket.SetDeadline(time.Now().Add(patience)))
				_, err = socket.Write(hello)
				must(t, err)
				_, _ = io.Copy(io.Discard, socket) // until it is closed
				socket.Close()
			}
			end()
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("50 strangers have left %d lines:\n%.500s", n, log.String())
			}
		})
	}
}

// Strangers that say hello before the nonsense do not fill the log either, however long the error
// is.
func TestStrangersThatSayHelloDoNotFillTheLog(t *testing.T) {
	leavesNothing(t)
	var log bytes.Buffer
	s := startServer(t, func(o *LinksOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.refuses, s.why = zab.KindNewLeader, errors.New(strings.Repeat("nonsense ", 10_000))
	hello := peerwire.AppendMessage(nil, &zab.Message{Kind: zab.KindFollowerInfo}, peerwire.FromLearner)
	for range 50 {
		socket := dialRaw(t, s.address)
		_, err := socket.Write(peerwire.AppendMessage(hello, &zab.Message{Kind: zab.KindNewLeader}, peerwire.FromLeader))
		must(t, err)
		_, _ = io.Copy(io.Discard, socket) // until it is closed
		socket.Close()
	}
	s.Shutdown()
	if text := log.String(); strings.Count(text, "\n") != 1 || len(text) > 2000 {
		t.Errorf("50 strangers have left %d lines, %d bytes:\n%.500s", strings.Count(text, "\n"), len(text), text)
	}
}

// A leader that refuses this server at each attempt does not fill the log: there is one line for
// each reason.
func TestLeaderThatRefusesDoesNotFillTheLog(t *testing.T) {
	leavesNothing(t)
	var log bytes.Buffer
	s, l := startServer(t, func(o *LinksOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), listen(t, "127.0.0.1:0")
	for range 50 {
		s.Connect([]peerwire.Address{addressOf(l)}, patience)
		socket, err := l.Accept()
		must(t, err)
		s.next("up")
		must(t, socket.(*net.TCPConn).SetLinger(0)) // it is reset, as by a server that expects TLS
		socket.Close()
		s.next("down")
	}
	s.Shutdown()
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("50 refusals have left %d lines:\n%.500s", n, log.String())
	}
}

// A server whose connections to another fail logs this again when the reason changes, and each
// minute: the first reason may be that the other was down, and the second its certificate.
func TestFailuresAreToldAgainForAnotherReason(t *testing.T) {
	f := failures{}
	refused := func(port int) error {
		return &net.OpError{Op: "dial", Addr: &net.TCPAddr{Port: port}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	certificate := fmt.Errorf("tls: %w", errors.New("bad certificate"))
	began := time.Unix(1, 0)
	for i, c := range []struct {
		err   error
		after time.Duration
		news  bool
	}{
		{refused(1), 0, true}, {refused(2), time.Second, false}, {certificate, 2 * time.Second, true}, {certificate, 3 * time.Second, false},
		{certificate, 61 * time.Second, false}, {certificate, 62 * time.Second, true}, {refused(3), 63 * time.Second, true}, {certificate, 64 * time.Second, false},
		{errors.Join(refused(4), certificate), 65 * time.Second, true}, {errors.Join(refused(5), certificate), 66 * time.Second, false},
	} {
		if got := f.news(c.err, began.Add(c.after)); got != c.news {
			t.Errorf("%d: %v after %v: %v", i, c.err, c.after, got)
		}
	}
}

// The error of a connection to the election port is logged, unless the other end has sent nothing.
func TestConnectionThatIsTurnedAwayIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		says []byte
		told string
	}{
		"a check of the port": {nil, ""},
		"TLS":                 {[]byte{0x16, 0x03, 0x01, 0x02, 0, 0x01, 0, 0x01, 0xfc, 0x03, 0x03}, "sslQuorum is not the same"},
		"an unknown version":  {bytes.Repeat([]byte{0xff}, 8), "unknown version"},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			var log bytes.Buffer
			l := listen(t, "127.0.0.1:0")
			v, err := NewVotes(VotesOptions{ID: 7, Listener: l, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			must(t, err)
			socket, err := net.Dial("tcp", l.Addr().String())
			must(t, err)
			must(t, socket.SetDeadline(time.Now().Add(patience)))
			_, err = socket.Write(c.says)
			must(t, err)
			_ = socket.(*net.TCPConn).CloseWrite() // it may be closed at the other end already
			_, _ = io.Copy(io.Discard, socket)     // until it is closed
			socket.Close()
			v.Close()
			if text := log.String(); (text != "") != (c.told != "") || !strings.Contains(text, c.told) {
				t.Errorf("the log has %q", text)
			}
		})
	}
}

// comesFrom is a connection of which only the other end is known.
type comesFrom struct {
	net.Conn
	addr *net.TCPAddr
}

func (c *comesFrom) RemoteAddr() net.Addr { return c.addr }

// A host that fails again and again hides neither another one nor what else it does, and however many
// hosts fail, the log does not fill.
func TestFailuresOfAHostDoNotHideThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var r refused
		fails := func(host byte, what string, want int) {
			t.Helper()
			log.Reset()
			r.log(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelWarn, what, &comesFrom{addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, host), Port: rand.IntN(1 << 16)}}, io.EOF)
			if n := strings.Count(log.String(), "\n"); n != want {
				t.Errorf("host %d, %s: %d lines, want %d", host, what, n, want)
			}
		}
		fails(1, "refuse", 1)
		fails(1, "refuse", 0)
		fails(2, "refuse", 1)
		fails(1, "end", 1)
		time.Sleep(time.Minute)
		for host := range refusedLinesMax {
			fails(byte(host), "refuse", 1)
		}
		fails(200, "refuse", 0)
		time.Sleep(time.Minute)
		fails(200, "refuse", 1)
		if want := fmt.Sprintf("failed=%d\n", refusedLinesMax+6); !strings.HasSuffix(log.String(), want) {
			t.Errorf("%s, want %s", log.String(), want)
		}
	})
}
