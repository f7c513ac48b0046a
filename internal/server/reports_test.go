package server

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// waiting is the number of those that wait for the next report of a kind.
func (a *reports) waiting(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.of[name]; k != nil && k.next != nil {
		return k.next.users
	}
	return 0
}

// TestReportIsMadeOnceForAllWhoAskMeanwhile, and not while somebody has the one before. A
// report of another kind waits for neither.
func TestReportIsMadeOnceForAllWhoAskMeanwhile(t *testing.T) {
	s := &Server{}
	var made atomic.Int32
	write := func() string { return strings.Repeat("x", int(made.Add(1))) }
	_, releaseFirst := s.Report("a", write)
	const asking = 50
	var all sync.WaitGroup
	for range asking {
		all.Go(func() {
			text, release := s.Report("a", write)
			defer release()
			if text != "xx" {
				t.Errorf("%q is not the second report", text)
			}
		})
	}
	awaittest.Until(t, "all wait", func() bool { return s.reports.waiting("a") == asking })
	_, release := s.Report("b", func() string { return "" })
	release()
	if n := made.Load(); n != 1 {
		t.Errorf("%d reports were made while one was there", n)
	}
	releaseFirst()
	all.Wait()
	if n := made.Load(); n != 2 {
		t.Errorf("%d reports were made", n)
	}
}

// longAnswers answers each four-letter word with more than sockets hold.
type longAnswers struct{ made atomic.Int32 }

func (*longAnswers) Known(string) bool { return true }
func (a *longAnswers) Answer(*Server, string) string {
	a.made.Add(1)
	return strings.Repeat("x", 8<<20)
}

// TestClientsThatReadNoAnswerHoldOneTogether: they used to hold one each, forever.
func TestClientsThatReadNoAnswerHoldOneTogether(t *testing.T) {
	answers := &longAnswers{}
	s := start(t, vfs.NewMem(), func(c *Config) { c.Commands, c.FourLetterWords = answers, []string{"*"} })
	s.closeGrace = time.Minute
	ask := func(bytes int) net.Conn {
		socket, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socket.Close() })
		_ = socket.(*net.TCPConn).SetReadBuffer(bytes)
		_, _ = io.WriteString(socket, "dump")
		return socket
	}
	first := ask(4 << 10)
	awaittest.Until(t, "a report is made", func() bool { return answers.made.Load() == 1 })
	others := make([]net.Conn, 20)
	for i := range others {
		others[i] = ask(1 << 20)
	}
	awaittest.Until(t, "all others wait", func() bool { return s.reports.waiting("dump") == len(others) })
	if n := answers.made.Load(); n != 1 {
		t.Errorf("%d reports are there", n)
	}
	first.Close()
	if answer, err := io.ReadAll(others[7]); len(answer) != 8<<20 || err != nil || answers.made.Load() != 2 {
		t.Errorf("%d bytes of report %d: %v", len(answer), answers.made.Load(), err)
	}
}

// TestClientThatReadsNoAnswerIsDisconnected, because others wait for the report that it has.
func TestClientThatReadsNoAnswerIsDisconnected(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Commands, c.FourLetterWords = &longAnswers{}, []string{"*"} })
	s.closeGrace = 50 * time.Millisecond
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = io.WriteString(socket, "dump")
	awaittest.Until(t, "it is here", func() bool { return len(s.conns.all()) == 1 })
	awaittest.Until(t, "it is disconnected", func() bool { return len(s.conns.all()) == 0 })
	if answer, err := io.ReadAll(socket); err == nil {
		t.Errorf("%d bytes look like a whole answer", len(answer))
	}
}

// TestDumpHasALimit: sessions may have gibibytes of ephemerals.
func TestDumpHasALimit(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	for range 3 {
		p := dial(t, s, nil)
		for range 4 {
			p.do(create("/e-", "", zk.EphemeralSequential)) // 13 bytes each
		}
	}
	for bytesMax, sessions := range map[int]int{1: 1, 4*(13+16) - 1: 1, 4 * (13 + 16): 2, 1 << 20: 3} {
		if d := s.dump(bytesMax); len(d.Ephemerals) != sessions || d.Left != 12-4*sessions || len(d.Sessions) != 3 {
			t.Errorf("%d bytes: ephemerals of %d of %d sessions, %d left out", bytesMax, len(d.Ephemerals), len(d.Sessions), d.Left)
		}
	}
}
