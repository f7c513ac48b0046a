package clientsession

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// A server that grants a shorter timeout lets the session expire that soon.
func TestShorterTimeoutShortensTheProof(t *testing.T) {
	p := newProver(t, Config{}, false) // 9000 ms
	p.ping(3000, 3010)
	p.call(zk.OpSetData, 6000, 6010, zk.OK)
	until, _ := p.m.ProvenMs()
	m := p.m
	m.Step(&Event{Kind: Lost, NowMs: 6020, Conn: m.conn})
	for now := int64(6020); m.phase != resolving; now += 10 {
		m.Step(&Event{Kind: Tick, NowMs: now})
	}
	m.Step(&Event{Kind: Resolved, NowMs: m.nowMs, Addresses: []string{"a:1"}})
	m.Step(&Event{Kind: Dialed, NowMs: m.nowMs, Conn: m.conn})
	sent := m.nowMs
	m.Step(&Event{Kind: Greeted, NowMs: sent + 5, Conn: m.conn, Greeting: Greeting{TimeoutMs: 2000, Session: 5}})
	if m.Address() == "" {
		t.Fatal("not attached")
	}
	if got, _ := m.ProvenMs(); got > sent+2000+5 {
		t.Errorf("proven until %d (before: %d), and the servers expire it 2000 ms after %d", got, until, sent)
	}
}
