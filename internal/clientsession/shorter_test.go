package clientsession

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// If a server grants a shorter timeout, the session expires that much earlier.
func TestShorterTimeoutShortensTheProof(t *testing.T) {
	p := newProver(t, Config{}, false) // 9000 ms
	p.ping(3000, 3010)
	p.call(zk.OpSetData, 6000, 6010, zk.OK)
	until, _ := p.m.ProvenMs()
	m := p.m
	m.Step(6020, &Event{Kind: Lost, Conn: m.conn})
	for now := int64(6020); m.phase != resolving; now += 10 {
		m.Step(now, &Event{Kind: Tick})
	}
	m.Step(m.nowMs, &Event{Kind: Resolved, Addresses: []string{"a:1"}})
	m.Step(m.nowMs, &Event{Kind: Dialed, Conn: m.conn})
	sent := m.nowMs
	m.Step(sent+5, &Event{Kind: Greeted, Conn: m.conn, Greeting: Greeting{TimeoutMs: 2000, Session: 5}})
	if m.Address() == "" {
		t.Fatal("not attached")
	}
	if got, _ := m.ProvenMs(); got > sent+2000+5 {
		t.Errorf("proven until %d (before: %d), and the servers expire it 2000 ms after %d", got, until, sent)
	}
}
