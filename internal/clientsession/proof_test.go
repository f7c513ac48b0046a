package clientsession

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// prover is a machine whose session has a timeout of 9000 ms, attached at 0.
type prover struct {
	t *testing.T
	m *Machine
}

func newProver(t *testing.T, config Config, readOnly bool) prover {
	config.TimeoutMs, config.Seed = 9000, 1
	p := prover{t, New(config, 0)}
	p.attach(0, readOnly)
	return p
}

// attach reaches a server and is greeted, all at the same moment.
func (p prover) attach(nowMs int64, readOnly bool) {
	p.t.Helper()
	p.m.Step(nowMs, &Event{Kind: Tick})
	p.m.Step(nowMs, &Event{Kind: Resolved, Addresses: []string{"a:1"}})
	p.m.Step(nowMs, &Event{Kind: Dialed, Conn: p.m.conn})
	p.m.Step(nowMs, &Event{Kind: Greeted, Conn: p.m.conn, Greeting: Greeting{TimeoutMs: 9000, Session: 5, ReadOnly: readOnly}})
	if p.m.Address() == "" {
		p.t.Fatal("not attached")
	}
}

// ping is sent at one time and answered at another.
func (p prover) ping(sentMs, answeredMs int64) {
	p.t.Helper()
	p.m.Step(sentMs, &Event{Kind: Tick})
	p.m.Step(answeredMs, &Event{Kind: Replied, Conn: p.m.conn, Xid: zk.XidPing})
}

func (p prover) call(op zk.Op, sentMs, answeredMs int64, code zk.Code) {
	p.t.Helper()
	call := &Call{Request: zk.Request{Op: op, Path: "/"}, Owner: p}
	p.m.Step(sentMs, &Event{Kind: Submit, Call: call})
	p.m.Step(answeredMs, &Event{Kind: Replied, Conn: p.m.conn, Xid: call.Request.Xid, Code: code})
}

func (p prover) want(untilMs int64, known bool) {
	p.t.Helper()
	if got, ok := p.m.ProvenMs(); got != untilMs || ok != known {
		p.t.Errorf("proven until %d, %v; want %d, %v", got, ok, untilMs, known)
	}
}

// TestOnlyWhatAQuorumDecidesProvesTheSession has a follower that is partitioned from
// its leader. It answers pings and reads for as long as it likes.
func TestOnlyWhatAQuorumDecidesProvesTheSession(t *testing.T) {
	p := newProver(t, Config{}, false)
	p.want(9000, true) // a quorum has made the session
	p.ping(3000, 3010)
	p.ping(6010, 6020)
	p.call(zk.OpGetData, 7000, 7010, zk.OK)
	p.call(zk.OpSetData, 7020, 7030, zk.ErrNotReadOnly)
	p.want(9000, true)
	p.call(zk.OpMulti, 7100, 7110, zk.OK)
	// The leader may not have learned of 6010, which came less than half a tick
	// before the write.
	p.want(3000+9000, true)
	p.call(zk.OpSetData, 8300, 8310, zk.OK)
	p.want(6010+9000, true)
}

// TestPauseOfTheClientLeavesItLittle: when a write comes after a pause, the leader
// does not learn of it until the follower's next answer to a ping.
func TestPauseOfTheClientLeavesItLittle(t *testing.T) {
	p := newProver(t, Config{}, false)
	p.call(zk.OpSetData, 8000, 8010, zk.OK)
	p.want(9000, true)
}

func TestSessionOfAnotherClientIsNotProvenByItsGreeting(t *testing.T) {
	p := newProver(t, Config{Session: 5}, false)
	p.want(0, false)
	p.call(zk.OpSetData, 10, 20, zk.OK)
	p.want(9000, true)
}

// TestReadOnlyServerProvesNothing has a read-only server resume a session, although
// no quorum knows whether the session lives.
func TestReadOnlyServerProvesNothing(t *testing.T) {
	p := newProver(t, Config{ReadOnly: true}, false)
	p.m.Step(1000, &Event{Kind: Lost, Conn: p.m.conn})
	p.attach(3000, true)
	for at := int64(6000); at < 60_000; at += 3000 {
		p.ping(at, at+10)
	}
	if p.m.State() != ReadOnly {
		t.Fatalf("state %v", p.m.State())
	}
	p.want(9000, true)
}

// TestSignsAreBounded has a busy client that gets thousands of answers within a
// timeout.
func TestSignsAreBounded(t *testing.T) {
	p := newProver(t, Config{}, false)
	for at := int64(1); at < 90_000; at++ {
		p.call(zk.OpGetData, at, at, zk.OK)
	}
	if n := len(p.m.proof.signs); n > signsMax {
		t.Errorf("%d signs are kept", n)
	}
	p.call(zk.OpSetData, 90_000, 90_001, zk.OK)
	if until, _ := p.m.ProvenMs(); until < 90_000+9000*11/16 || until > 90_000+9000*12/16 {
		t.Errorf("proven until %d", until)
	}
}
