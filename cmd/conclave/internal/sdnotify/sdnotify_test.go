package sdnotify

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
)

// fake is a server that hangs while hung is locked.
type fake struct {
	serves atomic.Bool
	hung   sync.Mutex
	ended  bool
}

func (f *fake) Serves() bool { return f.serves.Load() }

func (f *fake) Status() server.Status {
	f.hung.Lock()
	defer f.hung.Unlock()
	return server.Status{Ended: f.ended}
}

// told records what a manager was told, and when.
type told struct {
	mu     sync.Mutex
	began  time.Time
	states []string
	at     []time.Duration
}

func (m *told) send(state string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states, m.at = append(m.states, state), append(m.at, time.Since(m.began))
	return nil
}

// when returns the times at which a state was reported.
func (m *told) when(state string) (at []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, one := range m.states {
		if one == state {
			at = append(at, m.at[i])
		}
	}
	return at
}

// inBubble runs a manager in a synctest bubble, where time passes only while everything
// waits.
func inBubble(t *testing.T, watchdog time.Duration, f *fake, story func(m *told)) {
	synctest.Test(t, func(t *testing.T) {
		m := &told{began: time.Now()}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { (&Manager{send: m.send, watchdog: watchdog, log: slog.Default()}).Run(ctx, f) })
		story(m)
		stop()
		running.Wait()
		if at := m.when("STOPPING=1"); len(at) != 1 || m.states[len(m.states)-1] != "STOPPING=1" {
			t.Errorf("the end is not told last and once: %q", m.states)
		}
	})
}

func TestAServerIsReadyWhenItServes(t *testing.T) {
	f := &fake{}
	inBubble(t, 0, f, func(m *told) {
		time.Sleep(3 * time.Second)
		if len(m.when("READY=1")) > 0 {
			t.Error("sdnotify-N1: ready, and serves nobody")
		}
		f.serves.Store(true)
		time.Sleep(time.Second)
		f.serves.Store(false) // the leader changes
		time.Sleep(time.Second)
		f.serves.Store(true)
		time.Sleep(2 * QuorumWait)
		if at := m.when("READY=1"); len(at) != 1 || at[0] > 3*time.Second+look {
			t.Errorf("sdnotify-N1: ready at %v", at)
		}
		if at := m.when("STATUS=" + message(false)); len(at) != 2 {
			t.Errorf("that nobody is served was told at %v", at)
		}
		if len(m.when("WATCHDOG=1")) > 0 {
			t.Error("nobody has asked for that")
		}
	})
}

func TestAServerWithoutAQuorumIsReadyInTheEnd(t *testing.T) {
	inBubble(t, 0, &fake{}, func(m *told) {
		time.Sleep(QuorumWait - look)
		if len(m.when("READY=1")) > 0 {
			t.Error("sdnotify-N1: ready too early")
		}
		time.Sleep(time.Second)
		if at := m.when("READY=1"); len(at) != 1 {
			t.Errorf("sdnotify-N1: ready at %v", at)
		}
	})
}

func TestAServerThatHangsIsNotAlive(t *testing.T) {
	f := &fake{}
	f.serves.Store(true)
	inBubble(t, 30*time.Second, f, func(m *told) {
		time.Sleep(time.Minute)
		if at := m.when("WATCHDOG=1"); len(at) < 5 {
			t.Errorf("alive at %v alone", at)
		}
	})
	f = &fake{ended: true}
	inBubble(t, 30*time.Second, f, func(m *told) {
		time.Sleep(time.Minute)
		if at := m.when("WATCHDOG=1"); len(at) > 0 {
			t.Errorf("sdnotify-N2: one that has ended is alive at %v", at)
		}
	})
}

// TestAHungLoopIsNotToldAlive blocks on a lock, for which time in a bubble would not
// advance, so it uses the real clock.
func TestAHungLoopIsNotToldAlive(t *testing.T) {
	f := &fake{}
	m := &told{began: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	f.hung.Lock()
	var running sync.WaitGroup
	running.Go(func() { (&Manager{send: m.send, watchdog: time.Millisecond, log: slog.Default()}).Run(ctx, f) })
	awaittest.Until(t, "the server's state is told", func() bool { return len(m.when("STATUS="+message(false))) == 1 })
	if len(m.when("WATCHDOG=1")) > 0 {
		t.Error("sdnotify-N2: a server that hangs is alive")
	}
	f.hung.Unlock()
	awaittest.Until(t, "the server is alive again", func() bool { return len(m.when("WATCHDOG=1")) > 0 })
	stop()
	running.Wait()
}

func TestTheSocketIsThatOfTheEnvironment(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@conclave-" + strconv.Itoa(os.Getpid())} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		environment := map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": strconv.Itoa(os.Getpid())}
		value := func(key string) string { return environment[key] }
		m := FromEnvironment(value, slog.Default())
		if m == nil || m.watchdog != 30*time.Second {
			t.Fatalf("got %+v", m)
		}
		ctx, stop := context.WithCancel(t.Context())
		f := &fake{}
		f.serves.Store(true)
		var running sync.WaitGroup
		running.Go(func() { m.Run(ctx, f) })
		var states []string
		for range 2 {
			packet := make([]byte, 512)
			n, err := conn.Read(packet)
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, string(packet[:n]))
		}
		if want := []string{"READY=1", "STATUS=" + message(true)}; !slices.Equal(states, want) {
			t.Errorf("got %q", states)
		}
		stop()
		running.Wait()
		conn.Close()

		environment["WATCHDOG_PID"] = "1" // the pid of another process
		if m := FromEnvironment(value, slog.Default()); m.watchdog != 0 {
			t.Error("takes the watchdog of another process for its own")
		}
		delete(environment, "NOTIFY_SOCKET")
		if FromEnvironment(value, slog.Default()) != nil {
			t.Error("there is nobody to tell")
		}
	}
}

func TestAManagerThatHasGoneIsLoggedOnce(t *testing.T) {
	var log awaittest.Log
	value := func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "none")}[key]
	}
	m := FromEnvironment(value, slog.New(slog.NewTextHandler(&log, nil)))
	m.tell("READY=1")
	m.tell("STATUS=x")
	if n := strings.Count(log.String(), "could not be told"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
