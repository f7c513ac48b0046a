package clientsession

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

const (
	pingsMax   = 16 // unanswered; more are not worth remembering
	probeMinMs = 2000
	probeMaxMs = 60000

	reseatGapMs = 5000 // until a new list is looked up again that had names without an answer
)

var (
	pingRequest = zk.Request{Op: zk.OpPing, Xid: zk.XidPing}
	errSilent   = errors.New("server was silent for two thirds of the session timeout")
)

func (m *Machine) attachedTick(*Event) {
	if m.nowMs-m.seenMs >= m.readTimeoutMs() {
		m.lose(errSilent)
		return
	}
	if m.nowMs-m.sentMs >= m.readTimeoutMs()/2 {
		m.ping()
	}
	if m.state == ReadOnly && m.nowMs >= m.probeMs {
		m.probe()
	}
	if m.nowMs >= m.reseatMs {
		m.attachedReseat(nil)
	}
}

// ping shows a heartbeat. The request is shared: it never changes.
func (m *Machine) ping() {
	m.sentMs = m.nowMs
	if len(m.pings) < pingsMax {
		m.pings = append(m.pings, m.nowMs)
		m.transmit(&pingRequest)
	}
}

func (m *Machine) attachedLost(e *Event) { m.lose(e.Cause) }

// lose gives the connection up, not the session.
func (m *Machine) lose(cause error) {
	if m.phase == closing {
		m.closeUnanswered(cause)
		return
	}
	lasted := m.nowMs-m.attachedMs >= m.config.BackoffMaxMs
	if lasted {
		m.rounds = 0
	}
	// While watches are still being set again, the replies to the first of them
	// say nothing about the others: the next server must look back as far.
	if m.rearming == 0 {
		m.sinceZxid = m.lastZxid
	}
	m.drop()
	m.registry.markStale()
	m.failAll(lossOf(cause))
	m.requeueAuths()
	m.enter(Suspended, cause)
	m.pause(lasted || m.rounds == 0)
}

// lossOf is the error of the calls that a lost connection ends.
func lossOf(cause error) error {
	if cause == nil {
		return zk.ErrConnectionLoss
	}
	return fmt.Errorf("%w: %w", zk.ErrConnectionLoss, cause)
}

// attachedReseat looks the new list up while the connection goes on.
func (m *Machine) attachedReseat(*Event) {
	m.reseatMs = never
	m.emit(Effect{Kind: Resolve})
}

// attachedResolved moves to another server if the list has changed: surely
// when the present server is not in it, and when the list has grown, with the
// probability that spreads all clients evenly over it (ZOOKEEPER-1355).
//
// A name that cannot be looked up now says nothing about the present server,
// which may be behind it: the list is looked up again later.
func (m *Machine) attachedResolved(e *Event) {
	if !e.Found {
		m.reseatMs = m.nowMs + reseatGapMs
		return
	}
	former := len(m.addresses)
	gone := !slices.Contains(e.Addresses, m.address)
	grown := int64(len(e.Addresses))
	m.addresses = append(m.addresses[:0], e.Addresses...)
	if gone || former > 0 && grown > int64(former) && m.random.below(grown) >= int64(former) {
		m.lose(errors.New("moving to another server of a changed list"))
	}
}

// probe asks the other servers in turn whether one of them can write.
func (m *Machine) probe() {
	m.probeGapMs = min(2*m.probeGapMs, probeMaxMs)
	m.probeMs = m.nowMs + m.probeGapMs
	for range m.addresses {
		m.next = (m.next + 1) % len(m.addresses)
		if address := m.addresses[m.next]; address != m.address {
			m.emit(Effect{Kind: Probe, Address: address})
			return
		}
	}
}

// tryFirst begins a round with the server that answered, as it may have changed
// its mind: the others are then tried, or probed, as before.
func (m *Machine) tryFirst(address string) {
	m.addresses = slices.DeleteFunc(m.addresses, func(a string) bool { return a == address })
	m.addresses = slices.Insert(m.addresses, 0, address)
	m.next = 0
	m.dialNext()
}

func (m *Machine) attachedProbed(e *Event) {
	if m.state != ReadOnly || len(e.Addresses) == 0 {
		return
	}
	if !e.Found {
		m.probeMs = min(m.probeMs, m.nowMs+probeMinMs)
		return
	}
	m.lose(errors.New("leaving a read-only server for one that can write"))
	m.tryFirst(e.Addresses[0])
}
