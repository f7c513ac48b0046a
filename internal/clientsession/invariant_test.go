package clientsession

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// TestEveryEmptyCellIsMeantToBeEmpty keeps the table honest: each event that a
// phase ignores is listed here with the reason.
func TestEveryEmptyCellIsMeantToBeEmpty(t *testing.T) {
	const (
		elsewhere = "belongs to a connection in another phase"
		notAsked  = "nobody has asked"
		asked     = "the servers are being looked up already, or it is over"
	)
	meant := map[phase]map[EventKind]string{
		pausing: {Resolved: notAsked, Dialed: elsewhere, Greeted: elsewhere, Replied: elsewhere,
			Notified: elsewhere, Flushed: elsewhere, Lost: elsewhere, Refused: elsewhere, Probed: notAsked},
		resolving: {Tick: "the look-up has its own limit", Dialed: elsewhere, Greeted: elsewhere,
			Replied: elsewhere, Notified: elsewhere, Flushed: elsewhere, Lost: elsewhere, Refused: elsewhere, Probed: notAsked,
			Reseat: asked},
		dialling: {Resolved: "of a look-up that was overtaken", Greeted: elsewhere, Replied: elsewhere,
			Notified: elsewhere, Flushed: elsewhere, Refused: elsewhere, Probed: notAsked},
		greeting: {Resolved: "of a look-up that was overtaken", Dialed: elsewhere, Replied: elsewhere,
			Notified: elsewhere, Flushed: "the handshake is no call", Probed: notAsked},
		attached: {Dialed: elsewhere, Greeted: elsewhere, Refused: elsewhere},
		closing: {Resolved: "no other server will be used", Dialed: elsewhere, Greeted: elsewhere, Refused: elsewhere,
			Probed: "no other server will be used", Reseat: asked},
		ended: {Tick: "over", Resolved: "over", Dialed: "over", Greeted: "over", Replied: "over",
			Notified: "over", Flushed: "over", Lost: "over", Refused: "over", Probed: "over", Cancel: "all calls are complete",
			Unwatch: "all watches have ended", Reseat: "over", Detach: "over"},
	}
	for p := range phaseCount {
		for kind := range kindCount {
			_, empty := meant[p][kind]
			if (handlers[p][kind] == nil) != empty {
				t.Errorf("phase %s, event %d: handler %v, meant to be empty %v",
					phaseNames[p], kind, handlers[p][kind] != nil, empty)
			}
		}
	}
}

// chaos drives one machine with random events, and checks the invariants after
// each step.
type chaos struct {
	t         *testing.T
	m         *Machine
	random    random
	now       int64
	conn      int64 // the open connection, 0 if there is none
	calls     []*Call
	completed map[*Call]int
	awaited   []*zk.Request // sent on conn, but not answered
	watches   []*Watch
	ended     map[*Watch]bool
}

func TestWhateverHappensEveryCallEndsOnceAndInOrder(t *testing.T) {
	for seed := range uint64(300) {
		c := &chaos{t: t, random: random(seed), completed: map[*Call]int{}, ended: map[*Watch]bool{}}
		c.m = New(Config{TimeoutMs: 4000, Seed: seed, RearmBytesMax: 64, ReadOnly: seed%3 == 0, LeaveSoon: seed%2 == 0}, 0)
		for range 400 {
			c.happen()
		}
		c.step(&Event{Kind: Detach})
		for _, call := range c.calls {
			if c.completed[call] != 1 {
				t.Fatalf("seed %d: %v %s completed %d times", seed, call.Request.Op, call.Request.Path, c.completed[call])
			}
		}
		for _, w := range c.watches {
			if w.registered {
				t.Fatalf("seed %d: watch %s is registered after the end", seed, w.Path)
			}
		}
		if c.m.Backlog() != 0 || c.m.WakeMs() != never {
			t.Fatalf("seed %d: backlog %d, wake %d after the end", seed, c.m.Backlog(), c.m.WakeMs())
		}
	}
}

func (c *chaos) step(e *Event) {
	if e.Conn == 0 {
		e.Conn = c.m.conn
	}
	for _, effect := range c.m.Step(c.now, e) {
		c.check(&effect)
	}
	if at := c.m.WakeMs(); e.Kind == Tick && at <= c.now {
		c.t.Fatalf("after a tick at %d the machine wants another at %d (%s)", c.now, at, phaseNames[c.m.phase])
	}
}

func (c *chaos) check(e *Effect) {
	switch e.Kind {
	case Send:
		if e.Conn != c.conn {
			c.t.Fatalf("send on connection %d, open is %d", e.Conn, c.conn)
		}
		copied := *e.Request
		c.awaited = append(c.awaited, &copied)
	case Greet:
		c.conn = e.Conn
		c.awaited = nil
	case Drop:
		c.conn = 0
	case Complete:
		c.completed[e.Call]++
	case Notify:
		if c.ended[e.Watch] {
			c.t.Fatalf("watch %s is told after its end", e.Watch.Path)
		}
		if e.Watch.Kind.OneShot() {
			c.ended[e.Watch] = true
		}
	case EndWatch:
		c.ended[e.Watch] = true
	}
}

// happen makes one of the possible things happen.
func (c *chaos) happen() {
	c.now += c.random.below(40)
	switch n := c.random.below(24); {
	case n < 6:
		c.submit()
	case n < 12:
		c.server()
	case n < 13:
		c.now = max(c.now, min(c.m.WakeMs(), c.now+10000))
		c.step(&Event{Kind: Tick})
	case n < 14 && len(c.calls) > 0:
		c.step(&Event{Kind: Cancel, Call: c.calls[c.random.below(int64(len(c.calls)))]})
	case n < 15 && len(c.watches) > 0:
		w := c.watches[c.random.below(int64(len(c.watches)))]
		c.ended[w] = c.ended[w] || w.registered
		c.step(&Event{Kind: Unwatch, Watch: w})
	case n < 16 && c.random.below(8) == 0:
		c.step(&Event{Kind: Reseat})
	case n < 17 && c.random.below(60) == 0:
		c.close()
	case n < 18:
		c.step(&Event{Kind: Flushed})
	case n < 19 && c.random.below(4) == 0:
		c.step(&Event{Kind: Lost, Cause: errors.New("cut")})
	case n < 20:
		c.step(&Event{Kind: Probed, Addresses: []string{"b:1"}, Found: n%2 == 0})
	default:
		c.connect()
	}
}

func (c *chaos) close() {
	call := &Call{Owner: "close", Request: zk.Request{Op: zk.OpCloseSession}}
	c.calls = append(c.calls, call)
	c.step(&Event{Kind: Close, Call: call})
}

func (c *chaos) connect() {
	switch c.m.phase {
	case resolving, attached:
		c.step(&Event{Kind: Resolved, Found: c.random.below(3) > 0, Addresses: []string{"a:1", "b:1", "c:1"}[:c.random.below(4)]})
	case dialling:
		c.step(&Event{Kind: Dialed})
	case greeting:
		g := Greeting{TimeoutMs: 4000, Session: 7, ReadOnly: c.m.config.ReadOnly && c.random.below(3) == 0}
		if c.random.below(10) == 0 {
			g = Greeting{}
		}
		c.step(&Event{Kind: Greeted, Greeting: g})
	default:
		c.step(&Event{Kind: Tick})
	}
}

func (c *chaos) submit() {
	path := fmt.Sprintf("/%d", c.random.below(5))
	ops := []zk.Op{zk.OpSetData, zk.OpGetData, zk.OpExists, zk.OpGetChildren2, zk.OpAddWatch, zk.OpAuth, zk.OpRemoveWatches}
	call := &Call{Owner: "x", Request: zk.Request{Op: ops[c.random.below(int64(len(ops)))], Path: path, Watcher: zk.WatcherAny}}
	kinds := map[zk.Op]WatchKind{zk.OpGetData: DataWatch, zk.OpExists: DataWatch, zk.OpGetChildren2: ChildWatch,
		zk.OpAddWatch: PersistentWatch + WatchKind(c.random.below(2))}
	if kind, watches := kinds[call.Request.Op]; watches {
		call.Watch = &Watch{Path: path, Kind: kind, Owner: "w"}
		call.Request.Watch = kind.OneShot()
		c.watches = append(c.watches, call.Watch)
	}
	call.Request.Data = []byte(path)
	c.calls = append(c.calls, call)
	c.step(&Event{Kind: Submit, Call: call})
}

// server answers the oldest request, or reports an event.
func (c *chaos) server() {
	if c.conn == 0 || c.m.phase == greeting {
		return
	}
	if len(c.awaited) == 0 || c.random.below(3) == 0 {
		types := []zk.EventType{zk.EventNodeCreated, zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged}
		path := []string{"/", "/0", "/1", "/1/x", "/none"}[c.random.below(5)]
		c.step(&Event{Kind: Notified, Watched: zk.Event{Type: types[c.random.below(4)], Path: path}})
		return
	}
	r := c.awaited[0]
	c.awaited = c.awaited[1:]
	e := &Event{Kind: Replied, Xid: r.Xid, Zxid: zk.Zxid(c.now)}
	if r.Op != zk.OpSetWatches && r.Op != zk.OpSetWatches2 && r.Op != zk.OpAuth && c.random.below(4) == 0 {
		e.Code = zk.ErrNoNode
	}
	if c.random.below(200) == 0 {
		e.Xid += 100 // nonsense
	}
	c.step(e)
}

func TestTheQueueKeepsItsOrderWhileItGrowsAndShrinks(t *testing.T) {
	var q queue
	var want []*Call
	r := random(5)
	for range 5000 {
		switch r.below(5) {
		case 0, 1, 2:
			call := &Call{}
			q.push(call)
			want = append(want, call)
		case 3:
			var first *Call
			if len(want) > 0 {
				first, want = want[0], want[1:]
			}
			if q.pop() != first {
				t.Fatal("popped another call")
			}
		case 4:
			if len(want) > 0 {
				i := r.below(int64(len(want)))
				q.remove(want[i])
				want = append(want[:i:i], want[i+1:]...)
			}
		}
		if q.len() != len(want) {
			t.Fatalf("length %d, want %d", q.len(), len(want))
		}
	}
	for i := range want {
		if q.at(i) != want[i] {
			t.Fatalf("call %d is another", i)
		}
	}
}
