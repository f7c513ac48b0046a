package server

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// pipe is a log that nobody reads until it is opened.
type pipe struct {
	awaittest.Log
	reached chan struct{} // closed when somebody writes
	once    sync.Once
	open    chan struct{}
}

func (p *pipe) Write(b []byte) (int, error) {
	p.once.Do(func() { close(p.reached) })
	<-p.open
	return p.Log.Write(b)
}

// lines counts the lines that a server has logged.
func (s *Server) lines(log *awaittest.Log, text string) int {
	s.log.Wait()
	return log.Count(text)
}

// TestLogThatTakesNothingHoldsNobodyUp: the loop logs a quota that is exceeded, and the
// goroutine that accepts connections logs one that is refused.
func TestLogThatTakesNothingHoldsNobodyUp(t *testing.T) {
	log := &pipe{reached: make(chan struct{}), open: make(chan struct{})}
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ConnsPerIPMax = 2
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	opened := sync.OnceFunc(func() { close(log.open) })
	t.Cleanup(opened)
	p := dial(t, s, nil)
	for _, r := range []zk.Request{
		create("/a", "", 0), create("/zookeeper/quota/a", "", 0),
		create("/zookeeper/quota/a/zookeeper_limits", "count=1,bytes=-1", 0), create("/zookeeper/quota/a/zookeeper_stats", "count=0,bytes=0", 0),
		create("/a/b", "", 0), create("/a/c", "", 0),
	} {
		if code, _ := p.do(r); code != zk.OK {
			t.Fatal(r.Path, code)
		}
	}
	awaittest.Until(t, "something is logged", func() bool {
		select {
		case <-log.reached:
			return true
		default:
			return false
		}
	})
	if code, _ := p.do(create("/a/d", "", 0)); code != zk.OK {
		t.Error(code)
	}
	second := dial(t, s, nil)
	if err := refuses(s); err != nil {
		t.Error(err)
	}
	second.socket.Close()
	awaittest.Until(t, "it has gone", func() bool { return s.conns.count.Load() == 1 })
	if code, _ := dial(t, s, nil).do(zk.Request{Op: zk.OpPing}); code != zk.OK {
		t.Error(code)
	}
	opened()
	if n, m := s.lines(&log.Log, "quota exceeded"), s.lines(&log.Log, "see maxClientCnxns"); n != 1 || m != 1 {
		t.Errorf("%d lines of the quota, %d of the connection", n, m)
	}
}

// TestLinesThatHaveNoPlaceAreCounted: memory does not grow with a log that accepts nothing.
func TestLinesThatHaveNoPlaceAreCounted(t *testing.T) {
	log := &pipe{reached: make(chan struct{}), open: make(chan struct{})}
	queue, aside := logAside(slog.New(slog.NewTextHandler(log, nil)))
	aside = aside.With("server", 7).WithGroup("g")
	aside.Info("first")
	<-log.reached
	const more = 1024 + 10
	for range more {
		aside.Info("line", "k", "v")
	}
	close(log.open)
	queue.Wait()
	if n := log.Count("msg=line server=7 g.k=v"); n != 1024 || log.Count("linesMissing=10\n") != 1 || log.Count("msg=first server=7\n") != 1 {
		t.Errorf("%d lines: %s", n, strings.SplitN(log.String(), "\n", 3)[:2])
	}
}
