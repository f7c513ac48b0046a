package sim

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// mutateConfig returns what a mutant takes for the configuration.
func (p *process) mutateConfig(c *ensemble.Config) *ensemble.Config {
	if p.w.is(ObserversCount) {
		text := strings.ReplaceAll(c.Text(), ":observer", ":participant")
		if members := strings.Join(observersOf(c), ":"); c.Groups != nil && members != "" {
			text = "group.9=" + members + "\n" + text
		}
		return parse(text)
	}
	if !p.w.is(MajorityOfOne) || c.Version != 0 || p.place > p.w.plan.Participants || p.w.plan.Participants == 1 {
		return c
	}
	plain := *c
	plain.Groups, plain.Weights = nil, nil
	text := plain.Text()
	group := "\ngroup.1="
	weights := ""
	for i := range p.w.plan.Participants {
		if i > 0 {
			group += ":"
		}
		weight := "1"
		if i+1 == p.place {
			weight = "100"
		}
		id := fmt.Sprint(p.w.plan.idOf(i + 1))
		group += id
		weights += "\nweight." + id + "=" + weight
	}
	mutated, err := ensemble.Parse(text + group + weights)
	must(err)
	return mutated
}

// observersOf returns the ids of a configuration's observers.
func observersOf(c *ensemble.Config) (ids []string) {
	for i := range c.Members {
		if c.Members[i].Observer {
			ids = append(ids, fmt.Sprint(c.Members[i].ID))
		}
	}
	return ids
}

// mutateMessage changes a message that a mutant sends, and returns how often it is sent.
func (p *process) mutateMessage(l *link, m *zab.Message) (times int) {
	switch {
	case p.w.is(PingsHalved) && m.Kind == zab.KindPing && p.leads():
		l.halved = !l.halved
		if l.halved {
			return 0
		}
	case p.w.is(MasterUncommitted) && m.Kind == zab.KindInform && l.observes:
		return 0 // it was passed on before
	case p.w.is(SessionRevived) && m.Kind == zab.KindRevalidate && p.leads():
		m.Valid = true
	case p.w.is(FullLeaderStays) && m.Kind == zab.KindPing && m.Zxid == zk.NoZxid:
		m.Zxid = saysFull
	case p.w.is(TouchesLost) && m.Kind == zab.KindPing:
		m.Touches = nil
	case m.Kind == zab.KindPing && (p.w.is(TimeoutHalved) || p.w.is(TimeoutDoubled) || p.w.is(TimeoutsMixed)):
		p.mutateTouches(m)
	case p.w.is(WrongTreeUntold) && m.Kind == zab.KindPing && m.Zxid == saysWrong:
		m.Zxid = zab.PingUnasked(false)
	case p.w.is(SessionsNeverEnd) && m.Kind == zab.KindPing && !p.leads():
		p.touchAgain(m)
	case p.w.is(RequestTwice) && m.Kind == zab.KindRequest && m.Request.Op != zk.OpSync && p.random.oneIn(20):
		return 2
	}
	return 1
}

// saysFull is the zxid in a ping with which a learner says that its disk is full.
const saysFull = zk.NoZxid - 1

// saysWrong is the zxid in a ping with which a learner says that its tree differs.
const saysWrong = zk.NoZxid - 2

// touchAgain adds all sessions that were ever touched here.
func (p *process) touchAgain(m *zab.Message) {
	here := map[zk.SessionID]bool{}
	for _, t := range m.Touches {
		here[t.Session] = true
	}
	for _, t := range p.touches {
		if !here[t.Session] {
			here[t.Session] = true
			m.Touches = append(m.Touches, t)
		}
	}
	p.touches = m.Touches
}

// takeStray makes a mutant leader take a late write, from a server that its client has
// left, for one from the client's current server.
func (p *process) takeStray(batch []replica.Event) {
	for i := range batch {
		e := &batch[i]
		switch {
		case !p.w.is(StrayWrites) || e.Kind != replica.EventMessage:
		case e.Message.Kind == zab.KindRevalidate:
			p.owners[e.Message.Session] = e.Link
		case e.Message.Kind == zab.KindRequest && e.Message.Request.Op.IsWrite():
			if owner := p.owners[e.Message.Request.Session]; p.links[owner] != nil {
				e.Link = owner
			}
		}
	}
}

// mutateRecord changes in memory, but not in the log, what a server is going to apply.
func (p *process) mutateRecord(op *replica.DiskOp) {
	if !p.w.is(TxnAppliedWrong) && !p.w.is(MultiAppliedHalf) || op.Kind != replica.DiskAppend {
		return
	}
	_, t, _, err := txn.Decode(op.Payload)
	if err != nil || !p.random.oneIn(3) {
		return
	}
	logged := bytes.Clone(op.Payload)
	var path []byte
	switch {
	case p.w.is(TxnAppliedWrong) && t.Op == zk.OpCloseSession && len(t.Paths) > 0:
		path = []byte(t.Paths[0])
	case p.w.is(MultiAppliedHalf) && t.Op == zk.OpMulti:
		path = []byte(t.Sub[len(t.Sub)-1].Path)
	}
	if len(path) == 0 {
		return
	}
	if at := bytes.LastIndex(op.Payload, path); at >= 0 {
		op.Payload[at+len(path)-1] ^= 1
	}
	op.Payload = logged
}

// loadState reads the state after a SNAP, and changes it as a mutant does.
func (p *process) loadState(r io.Reader) (*replica.State, error) {
	switch p.w.plan.Mutant {
	case SnapshotLosesNode, SnapshotLosesSession, SnapshotFreesEphemeral, SnapshotLosesACL, ReconfigNotInSnapshot:
		s := &spoiling{State: replica.NewState(true), mutant: p.w.plan.Mutant, config: p.inForce.Text()}
		_, err := snap.LoadStream(r, "the leader's snapshot", snap.Options{}, s)
		return s.State, err
	}
	return replicadisk.LoadStream(r, p.diskOptions())
}

// spoiling takes a snapshot with a bug.
type spoiling struct {
	*replica.State
	mutant Mutant
	config string // the configuration in force at the receiver
	done   bool
}

// Session implements snap.Sink.
func (s *spoiling) Session(id zk.SessionID, timeoutMs int32) error {
	if s.mutant == SnapshotLosesSession && !s.done {
		s.done = true
		return nil
	}
	return s.State.Session(id, timeoutMs)
}

// Node implements snap.Sink.
func (s *spoiling) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	switch {
	case s.mutant == SnapshotLosesACL:
		acl = -1
	case s.mutant == ReconfigNotInSnapshot && path == zk.ConfigPath:
		data = []byte(s.config)
	case s.mutant == SnapshotLosesNode && len(path) > 4 && path[:3] == "/k/" && !s.done:
		s.done = true
		return nil
	case s.mutant == SnapshotFreesEphemeral && zk.KindOfOwner(stat.EphemeralOwner, true) == zk.OwnerSession && !s.done:
		s.done = true
		stat.EphemeralOwner = 0
	}
	return s.State.Node(path, data, acl, stat)
}
