package zabtest

import (
	"bytes"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// order is what the ensemble has shown to clients: one sequence, of which every serving server
// shows a beginning (total order, agreement, integrity). It only grows, and a new leader must
// have all of it (nothing acknowledged is lost).
type order struct {
	records []zab.Record
	epochs  map[uint32]quorum.ID // who was established in each epoch
}

// before counts the transactions of older epochs that were shown. A leader begins with all of
// them (primary integrity). It may be deposed already without knowing it.
func (o *order) before(epoch uint32) int {
	n := len(o.records)
	for n > 0 && o.records[n-1].Zxid.Epoch() >= epoch {
		n--
	}
	return n
}

func (w *World) check(holds bool, format string, args ...any) {
	if !holds {
		w.fail(format, args...)
	}
}

// served is called when a server begins to show its tree.
func (w *World) served(s *server, epoch uint32) {
	w.tally.Serves++
	if s.peer.State() == zab.Leading {
		other, known := w.order.epochs[epoch]
		w.check(!known || other == s.id, "servers %d and %d lead epoch %d", other, s.id, epoch)
		w.order.epochs[epoch] = s.id
		older := w.order.before(epoch)
		w.check(len(s.tree) >= older,
			"LOST: leader %d of epoch %d has %d transactions, %d were shown in older epochs", s.id, epoch, len(s.tree), older)
	}
	w.check(len(s.tree) >= s.shown, "BACK: server %d has shown %d transactions, and now has %d", s.id, s.shown, len(s.tree))
	if s.peer.BehindMaster() {
		w.tally.Behind++
	}
	for i := range s.tree {
		w.shown(s, i)
	}
}

// delivered is called after each transaction that was added to a tree. Only a serving server
// shows it.
func (w *World) delivered(s *server) {
	if s.serving {
		w.shown(s, len(s.tree)-1)
	}
}

// shown compares the transaction at one index of a tree with the order.
func (w *World) shown(s *server, at int) {
	r := s.tree[at]
	s.shown = max(s.shown, at+1)
	if at < len(w.order.records) {
		want := w.order.records[at]
		w.check(r.Zxid == want.Zxid && bytes.Equal(r.Payload, want.Payload),
			"DIVERGED: server %d has %s at place %d, another has %s", s.id, zab.FormatZxid(r.Zxid), at, zab.FormatZxid(want.Zxid))
		return
	}
	if at > 0 {
		before := w.order.records[at-1].Zxid
		next := r.Zxid.Epoch() == before.Epoch() && r.Zxid == before+1
		later := r.Zxid.Epoch() > before.Epoch() && r.Zxid.Counter() == 1
		w.check(next || later, "ORDER: %s is shown after %s", zab.FormatZxid(r.Zxid), zab.FormatZxid(before))
	}
	w.order.records = append(w.order.records, r)
	w.tally.Committed++
}

// checkSend checks what must be on disk before a message is sent. With a mutant it checks
// nothing: the mutant must be found by its effect on clients.
func (w *World) checkSend(s *server, m *zab.Message) {
	d := &s.disk
	epoch := m.Zxid.Epoch()
	switch {
	case w.opts.Mutant != None:
	case m.Kind == zab.KindAck && m.Zxid.Counter() != 0:
		w.check(d.durable() >= m.Zxid, "server %d acknowledges %s before it is durable", s.id, zab.FormatZxid(m.Zxid))
	case m.Kind == zab.KindAck:
		w.check(d.current == epoch, "server %d acknowledges NEWLEADER before epoch %d is durable", s.id, epoch)
	case m.Kind == zab.KindLeaderInfo:
		w.check(d.accepted >= epoch, "server %d promises epoch %d before it is durable", s.id, epoch)
	}
}

// askSync makes a client of a server ask for a sync. After the answer, the server must show
// everything that any server had shown before the request.
func (s *server) askSync() {
	if !s.serving {
		return
	}
	s.syncs = append(s.syncs, len(s.w.order.records))
	if s.peer.State() == zab.Leading {
		if s.w.opts.Mutant == SyncWithoutQuorum {
			s.w.synced(s)
			return
		}
		s.push(zab.Event{Kind: zab.EventSync})
		return
	}
	s.push(zab.Event{Kind: zab.EventForward, Request: &zab.Request{Op: zk.OpSync}})
}

// synced is called with the answer to the oldest sync.
func (w *World) synced(s *server) {
	if len(s.syncs) == 0 {
		w.fail("server %d answers a sync that nobody asked for", s.id)
		return
	}
	w.tally.Syncs++
	want := s.syncs[0]
	s.syncs = s.syncs[1:]
	w.check(len(s.tree) >= want, "STALE: server %d has %d transactions after a sync, %d were shown before it", s.id, len(s.tree), want)
}
