package clientsession

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// TestReadOnlyServerIsLeftAgain: a server has answered that it can write, but is
// read-only by the time the client attaches. The client leaves it again when another
// server can write.
func TestReadOnlyServerIsLeftAgain(t *testing.T) {
	m := New(Config{TimeoutMs: 9000, Seed: 1, ReadOnly: true}, 0)
	m.Step(0, &Event{Kind: Tick})
	m.Step(0, &Event{Kind: Resolved, Addresses: []string{"a:1", "b:1", "c:1"}, Found: true})
	greet := func() {
		m.Step(m.nowMs, &Event{Kind: Dialed, Conn: m.conn})
		m.Step(m.nowMs, &Event{Kind: Greeted, Conn: m.conn, Greeting: Greeting{TimeoutMs: 9000, Session: 5, ReadOnly: true}})
	}
	greet()
	if m.State() != ReadOnly {
		t.Fatal(m.State())
	}
	first := m.Address()
	other := map[string]string{"a:1": "b:1", "b:1": "c:1", "c:1": "a:1"}[first]
	m.Step(2000, &Event{Kind: Probed, Addresses: []string{other}, Found: true})
	greet() // partitioned from its quorum just now
	if m.State() != ReadOnly || m.Address() != other {
		t.Fatal(m.State(), m.Address())
	}
	probes := 0
	for now := int64(2000); now < 600_000; now += 500 {
		for _, e := range m.Step(now, &Event{Kind: Tick}) {
			if e.Kind == Probe {
				probes++
			}
		}
		for len(m.pings) > 0 {
			m.Step(now, &Event{Kind: Replied, Conn: m.conn, Xid: zk.XidPing})
		}
	}
	if probes == 0 {
		t.Errorf("read-only on %s for ten minutes, and no other server was asked whether it can write", other)
	}
}
