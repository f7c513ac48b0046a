package server

import (
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/zk"
)

// threeServers starts an ensemble in a bubble, and returns its leader and the others once they
// serve.
func threeServers(t *testing.T, change func(*Config)) (leader *Server, others []*Server, net *bubble.Net) {
	t.Helper()
	all, _, net := wired(t, 3, change)
	awaittest.Until(t, "all serve", func() bool {
		return all[1].Serves() && all[2].Serves() && all[3].Serves()
	})
	for id := range quorum.ID(3) {
		if s := all[id+1]; s.Leads() {
			leader = s
		} else {
			others = append(others, s)
		}
	}
	return leader, others, net
}

// hold keeps the loops of servers at a step, each until the function returned is called.
func holdLoops(all ...*Server) (resume func()) {
	until := make(chan struct{})
	held := make(chan struct{})
	for _, s := range all {
		go s.inspect(func(*replica.Replica) {
			held <- struct{}{}
			<-until
		})
		<-held
	}
	return func() { close(until) }
}

// A step may take longer than syncLimit, on the leader, on the others, or on all at once. It is
// work that everybody has to do, and no reason for an election (review 26, F2).
func TestServerThatIsAtALongStepIsNotSilent(t *testing.T) {
	synctest.Test(t, serverThatIsAtALongStepIsNotSilent)
}

func serverThatIsAtALongStepIsNotSilent(t *testing.T) {
	silence := 300 * time.Millisecond
	leader, others, _ := threeServers(t, func(c *Config) {
		c.TickTime, c.SyncLimit, c.InitLimit = 100*time.Millisecond, 3, 1000
	})
	epoch := leader.Role().Epoch
	for what, held := range map[string][]*Server{
		"the leader": {leader}, "the others": others, "all": {leader, others[0], others[1]},
	} {
		resume := holdLoops(held...)
		for _, s := range held {
			awaittest.Until(t, "the step has lasted for long", func() bool {
				return s.monoMs()-s.busy.sinceMs.Load() > 5*silence.Milliseconds()
			})
		}
		resume()
		for _, s := range []*Server{leader, others[0], others[1]} {
			sinceMs := s.monoMs()
			awaittest.Until(t, "the loop has looked at the others for as long as one may be silent", func() bool {
				return s.busy.lookedMs.Load() > sinceMs+silence.Milliseconds()
			})
		}
		if role := leader.Role(); role.Mode != ModeLeader || role.Epoch != epoch || !others[0].Serves() || !others[1].Serves() {
			t.Fatalf("%s: %+v, %v, %v", what, role, others[0].Role(), others[1].Role())
		}
	}
}

// A server that cannot know whether a session lives must not tell the client that it does:
// another server may lead by now, and have ended it (review 26, F5).
func TestServerThatDoesNotLookAtTheOthersAnswersNoPing(t *testing.T) {
	synctest.Test(t, serverThatDoesNotLookAtTheOthersAnswersNoPing)
}

func serverThatDoesNotLookAtTheOthersAnswersNoPing(t *testing.T) {
	leader, others, net := threeServers(t, func(c *Config) {
		c.TickTime, c.SyncLimit, c.InitLimit = 100*time.Millisecond, 3, 1000
		c.SessionMin, c.SessionMax = 10*time.Second, 10*time.Second
	})
	for _, s := range []*Server{leader, others[0]} {
		p := reach(t, net, s)
		resume := holdLoops(s)
		awaittest.Until(t, "the loop has not looked for a tick", func() bool { return s.blind(s.monoMs()) })
		p.send(zk.Request{Op: zk.OpPing}, zk.Request{Op: zk.OpExists, Path: "/"})
		_ = p.socket.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if n, err := p.socket.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("server %d answers while it does not look: %v", s.cfg.ID, err)
		}
		resume()
		for _, op := range []zk.Op{zk.OpPing, zk.OpExists} {
			if h, _ := p.reply(op); h.Code != zk.OK {
				t.Errorf("server %d: the answer to %v is %v", s.cfg.ID, op, h.Code)
			}
		}
	}
}

// The same for requests that have waited meanwhile, and arrived when the loop still looked: a
// long read, which waits for others that are being answered, and a ping and a read behind it.
func TestServerThatDoesNotLookAtTheOthersAnswersNothingThatHasWaited(t *testing.T) {
	synctest.Test(t, serverThatDoesNotLookAtTheOthersAnswersNothingThatHasWaited)
}

func serverThatDoesNotLookAtTheOthersAnswersNothingThatHasWaited(t *testing.T) {
	leader, _, net := threeServers(t, func(c *Config) {
		c.TickTime, c.SyncLimit, c.InitLimit = 100*time.Millisecond, 3, 1000
		c.SessionMin, c.SessionMax = 10*time.Second, 10*time.Second
	})
	p := reach(t, net, leader)
	big(p, "/long", answerLong/2)
	most := leader.answers.ask(answerBudgetMax)
	<-most.given
	long := zk.Request{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/long"}, {Op: zk.OpGetData, Path: "/long"}}}
	p.send(long, zk.Request{Op: zk.OpPing}, zk.Request{Op: zk.OpExists, Path: "/"})
	awaittest.Until(t, "the long one waits", func() bool {
		leader.answers.mu.Lock()
		defer leader.answers.mu.Unlock()
		return len(leader.answers.mu.waiting) == 1
	})
	resume := sync.OnceFunc(holdLoops(leader))
	defer resume()
	awaittest.Until(t, "the loop has not looked for a tick", func() bool { return leader.blind(leader.monoMs()) })
	leader.answers.release(answerBudgetMax)
	_ = p.socket.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := p.socket.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it answers while it does not look: %v", err)
	}
	resume()
	for _, op := range []zk.Op{zk.OpMultiRead, zk.OpPing, zk.OpExists} {
		if h, _ := p.reply(op); h.Code != zk.OK {
			t.Errorf("the answer to %v is %v", op, h.Code)
		}
	}
}

// A loop that hangs does not count as working: after initLimit the others consider the leader
// silent.
func TestServerWhoseLoopHangsLosesItsRole(t *testing.T) {
	synctest.Test(t, serverWhoseLoopHangsLosesItsRole)
}

func serverWhoseLoopHangsLosesItsRole(t *testing.T) {
	leader, others, _ := threeServers(t, func(c *Config) {
		c.TickTime, c.SyncLimit, c.InitLimit = 100*time.Millisecond, 3, 10
	})
	epoch := leader.Role().Epoch
	resume := holdLoops(leader)
	defer resume()
	awaittest.Until(t, "another leads", func() bool {
		return (others[0].Leads() || others[1].Leads()) && others[0].Role().Epoch > epoch
	})
}

// After a step that took long, the next ones take less, down to one event, and more again when
// they are short.
func TestStepsTakeLessAfterALongOne(t *testing.T) {
	var b inbox
	b.init(func() int64 { return 1 })
	fill := func() {
		for range 1000 {
			b.put(replica.Event{Kind: replica.EventTick})
		}
	}
	fill()
	if n := len(b.take().events); n != 1000 {
		t.Fatalf("%d events in the first step", n)
	}
	fill()
	const tick = time.Second
	for range 10 {
		b.took(tick, tick)
	}
	if n := len(b.take().events); n != 1 {
		t.Errorf("%d events after long steps", n)
	}
	for range 30 {
		b.took(tick/100, tick)
	}
	if n := len(b.take().events); n != 999 {
		t.Errorf("%d events after short steps", n)
	}
}
