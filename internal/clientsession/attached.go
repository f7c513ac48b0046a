package clientsession

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

const (
	pingsMax   = 16 // unanswered pings; more are not remembered
	probeMinMs = 2000
	probeMaxMs = 60000

	reseatGapMs = 5000 // pause before a new list is looked up again whose names had no complete answer
)

var (
	pingRequest = zk.Request{Op: zk.OpPing, Xid: zk.XidPing}
	errSilent   = errors.New("server was silent for two thirds of the session timeout")
)

func (m *Machine) attachedTick(*Event) {
	if m.nowMs-m.seenMs >= m.readTimeoutMs() {
		m.lose(m.errSilent())
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

// errSilent returns why the client leaves a server.
func (m *Machine) errSilent() error {
	if m.config.LeaveSoon {
		return fmt.Errorf("server was silent for %d ms", m.readTimeoutMs())
	}
	return errSilent
}

// ping sends a heartbeat. All pings share one request, which never changes.
func (m *Machine) ping() {
	m.sentMs = m.nowMs
	if len(m.pings) < pingsMax {
		m.pings = append(m.pings, m.nowMs)
		m.transmit(&pingRequest)
	}
}

func (m *Machine) attachedLost(e *Event) { m.lose(e.Cause) }

// lose gives up the connection, but not the session.
func (m *Machine) lose(cause error) {
	if m.phase == closing {
		m.closeUnanswered(cause)
		return
	}
	lasted := m.nowMs-m.attachedMs >= m.config.BackoffMaxMs
	if lasted {
		m.rounds = 0
	}
	// While watches are still being set again, the replies to the first requests say
	// nothing about the other watches: the next server must look back as far.
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

// lossOf returns the error of the calls that end with a lost connection.
func lossOf(cause error) error {
	if cause == nil {
		return zk.ErrConnectionLoss
	}
	return fmt.Errorf("%w: %w", zk.ErrConnectionLoss, cause)
}

// attachedReseat looks up the new list while the connection continues.
func (m *Machine) attachedReseat(*Event) {
	m.reseatMs = never
	m.emit(Effect{Kind: Resolve})
}

// attachedResolved moves to another server if the list has changed: always if the current
// server is not in it, and if the list has grown, with the probability that spreads all
// clients evenly over it (ZOOKEEPER-1355).
//
// A name that cannot be looked up now may be that of the current server, so in that case
// the list is looked up again later.
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

// probe asks the other servers in turn whether one of them is read-write.
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

// tryFirst begins a round with the server that has answered. It may have changed its mind;
// the others are then tried, or probed, as before.
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
