package conclavetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// put retries until the write succeeds: a write whose leader is killed may be lost.
func put(t *testing.T, c *client.Client, path, data string) {
	t.Helper()
	ctx := awaittest.Within(t)
	for {
		_, _, err := c.Create(ctx, path, []byte(data), client.CreateOptions{})
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, zk.ErrConnectionLoss) {
			t.Fatal(err)
		}
	}
}

func TestEnsembleSurvivesEachOfItsServers(t *testing.T) {
	e := Start(t)
	c := e.Client(t)
	for i := range 4 {
		put(t, c, fmt.Sprintf("/n%d", i), "x")
		killed := e.Leader()
		e.Kill(killed)
		if second := e.Leader(); second == killed {
			t.Fatalf("server %d leads though it was killed", killed)
		}
		put(t, c, fmt.Sprintf("/m%d", i), "y")
		e.Restart(killed)
		e.WaitSynced()
	}
	children, _, err := c.Children(awaittest.Within(t), "/")
	if err != nil || len(children) != 9 { // and /zookeeper
		t.Errorf("%v, %v", children, err)
	}
}

func TestStandAloneServerIsRestartedOnItsDisk(t *testing.T) {
	e := Start(t, Servers(1))
	c := e.Client(t)
	put(t, c, "/a", "x")
	e.Restart(1)
	e.WaitSynced()
	if data, _, err := c.Get(awaittest.Within(t), "/a"); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestObserversServeWithoutAVote(t *testing.T) {
	e := Start(t, Servers(1), Observers(2))
	if e.Leader() != 1 {
		t.Fatal("an observer leads")
	}
	c, err := client.Dial(awaittest.Within(t), e.Addr(3), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put(t, c, "/a", "x")
	e.WaitSynced()
}

// A leader that is partitioned from the others is replaced. When the cut is healed,
// it learns what they did in the meantime.
func TestCutLeaderIsReplacedAndComesBack(t *testing.T) {
	e := Start(t)
	first := e.Leader()
	for id := 1; id <= 3; id++ {
		if id != first {
			e.Cut(first, id)
		}
	}
	e.Advance(3 * time.Second)
	second := e.Leader()
	if second == first {
		t.Fatalf("server %d still leads", first)
	}
	c, err := client.Dial(awaittest.Within(t), e.Addr(second), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put(t, c, "/while-cut", "x")
	e.Heal()
	e.WaitSynced()
	if got := e.local.Server(first).Role().Leader; int(got) != e.Leader() {
		t.Errorf("server %d follows %d", first, got)
	}
}

func TestExpiredSessionLosesItsEphemeralsAndLearnsOfIt(t *testing.T) {
	e := Start(t)
	ctx := awaittest.Within(t)
	mine, other := e.Client(t), e.Client(t)
	if _, _, err := mine.Create(ctx, "/here", nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	e.ExpireSession(mine.SessionID())
	if err := other.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	if _, exists, err := other.Exists(ctx, "/here"); exists || err != nil {
		t.Errorf("the ephemeral is there: %v", err)
	}
	select {
	case <-mine.Done():
	case <-ctx.Done():
		t.Fatal("the client has not learned that its session expired")
	}
	if err := mine.Err(); !errors.Is(err, zk.ErrSessionExpired) {
		t.Error(err)
	}
}

// longTicks makes servers miss each other only after 25 s. The clock goes on while a
// machine is stalled, and that must not count as silence in tests whose leader must
// stay.
var longTicks = TickTime(5 * time.Second)

func TestClockExpiresSilentSessionsAndKeepsTheOthers(t *testing.T) {
	e := Start(t, longTicks)
	ctx := awaittest.Within(t)
	kept := e.Client(t, func(o *client.Options) { o.SessionTimeout = time.Minute })
	silent, err := client.Dial(ctx, e.Servers(), client.Options{SessionTimeout: 150 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	left := silent.Detach()
	leader := e.Leader()
	e.Advance(2 * time.Minute)
	if !e.local.Server(leader).KnowsSession(left.ID) {
		t.Error("the session has expired too early")
	}
	e.Advance(75 * time.Second)
	e.poll("the silent session to end", func() bool { return !e.local.Server(leader).KnowsSession(left.ID) })
	if now := e.Leader(); now != leader {
		t.Errorf("server %d leads instead of server %d", now, leader)
	}
	if err := kept.Sync(ctx, "/"); err != nil {
		t.Errorf("the session that was kept alive: %v", err)
	}
}

func TestClockReapsContainersAndTTLZnodes(t *testing.T) {
	e := Start(t)
	ctx := awaittest.Within(t)
	c := e.Client(t)
	if _, _, err := c.Create(ctx, "/old", nil, client.CreateOptions{Mode: zk.PersistentTTL, TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	before := e.Now()
	e.Advance(62 * time.Second)
	if moved := e.Now().Sub(before); moved < 62*time.Second {
		t.Errorf("the date moved by %v", moved)
	}
	e.poll("the TTL znode to go", func() bool {
		_, exists, err := c.Exists(ctx, "/old")
		return err == nil && !exists
	})
}

func TestMovedTimersFireWhenTheirTimeHasCome(t *testing.T) {
	m := newMovable()
	soon, late, stopped := m.Timer(m.Now().Add(time.Hour)), m.Timer(m.Now().Add(3*time.Hour)), m.Timer(m.Now().Add(time.Hour))
	stopped.Stop()
	m.advance(59 * time.Minute)
	fired := func(c clock.Timer) bool {
		select {
		case <-c.C():
			return true
		default:
			return false
		}
	}
	if fired(soon) || fired(late) {
		t.Error("fired too early")
	}
	m.advance(time.Minute)
	if !fired(soon) || fired(late) || fired(stopped) {
		t.Error("one of the timers is wrong")
	}
	now := m.Timer(m.Now())
	if !fired(now) {
		t.Error("a timer that is due waits")
	}
	short := m.Timer(m.Now().Add(5 * time.Millisecond))
	<-short.C()
	late.Stop()
	if len(m.timers) != 0 {
		t.Errorf("%d timers are left", len(m.timers))
	}
}

// failing is a test that has failed; it records what is logged to it.
type failing struct {
	testing.TB
	cleanup []func()
	printed strings.Builder
}

func (f *failing) Cleanup(g func())  { f.cleanup = append(f.cleanup, g) }
func (f *failing) Failed() bool      { return true }
func (f *failing) Log(args ...any)   { fmt.Fprintln(&f.printed, args...) }
func (f *failing) Helper()           {}
func (f *failing) end() (out string) { f.cleanup[0](); return f.printed.String() }

func TestFailedTestSaysWhoLedAndWhatTheServersLogged(t *testing.T) {
	f := &failing{TB: t}
	e := Start(f)
	first := e.Leader()
	e.Kill(first)
	second := e.Leader()
	out := f.end()
	for _, want := range []string{
		"who led:", fmt.Sprintf("server %d leads, epoch ", first), fmt.Sprintf("server %d is killed", first),
		fmt.Sprintf("server %d leads, epoch ", second), "level=INFO",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestJournalKeepsTheLastLines(t *testing.T) {
	j := newJournal(nil)
	for i := range 3 * journalLines {
		j.note("line %d", i)
	}
	text := j.text()
	if !strings.Contains(text, fmt.Sprintf("line %d\n", 3*journalLines-1)) || strings.Contains(text, "line 0\n") || len(j.lines) > journalLines {
		t.Errorf("%d lines:\n%s", len(j.lines), text)
	}
}

// talking is a test to which nothing may be logged once it has ended.
type talking struct {
	testing.TB
	cleanup []func()
	lines   []string
	mu      sync.Mutex
	over    bool
}

func (l *talking) Cleanup(g func()) { l.cleanup = append(l.cleanup, g) }
func (l *talking) Helper()          {}
func (l *talking) Log(args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		l.TB.Errorf("said after the end: %v", args)
	}
	l.lines = append(l.lines, fmt.Sprint(args...))
}

func TestLogSaysEverythingAndNothingAfterTheEnd(t *testing.T) {
	for range 5 {
		l := &talking{TB: t}
		e := Start(l, Log(l), TickTime(100*time.Millisecond), SessionMin(time.Second))
		leader := e.Leader()
		l.cleanup[0]()
		l.mu.Lock()
		l.over = true
		said := strings.Join(l.lines, "\n")
		l.mu.Unlock()
		if !strings.Contains(said, fmt.Sprintf("server %d leads, epoch ", leader)) {
			t.Errorf("it said:\n%s", said)
		}
	}
}
