package zabtest

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// disk is the disk of a server. A crash loses what is in pending, except for a prefix: a disk
// may have done more than it has reported.
type disk struct {
	accepted, current uint32
	snap              []zab.Record // the tree as last saved
	base              zk.Zxid      // the zxid of snap
	log               []zab.Record
	written           int // records of the log that are synced
	pending           []operation
	cut               []zab.Record // for a mutant: the records that come back
	busy, held        bool
}

// operation is an effect on its way to the disk; for a snapshot, with the tree.
type operation struct {
	zab.Effect
	tree []zab.Record
}

// last is the zxid of the newest record or snapshot.
func (d *disk) last() zk.Zxid {
	if n := len(d.log); n > 0 {
		return d.log[n-1].Zxid
	}
	return d.base
}

// durable is the newest zxid that survives a crash.
func (d *disk) durable() zk.Zxid {
	if d.written > 0 {
		return d.log[d.written-1].Zxid
	}
	return d.base
}

// state is the tree that recovery builds from the disk.
func (d *disk) state() []zab.Record {
	all := append([]zab.Record(nil), d.snap...)
	for _, r := range d.log {
		if n := len(all); n == 0 || all[n-1].Zxid < r.Zxid { // the snapshot may be fuzzy
			all = append(all, r)
		}
	}
	return all
}

// do carries an operation out. It returns false if the log cannot be truncated there.
func (d *disk) do(s *server, op *operation) bool {
	switch op.Kind {
	case zab.EffectAppend:
		d.log = append(d.log, op.Record)
	case zab.EffectSync:
		d.written = len(d.log)
	case zab.EffectSetAccepted:
		s.w.check(op.Epoch >= d.accepted, "server %d lowers its accepted epoch", s.id)
		d.accepted = op.Epoch
	case zab.EffectSetCurrent:
		s.w.check(op.Epoch >= d.current, "server %d lowers its current epoch", s.id)
		d.current = op.Epoch
	case zab.EffectSaveSnapshot:
		d.snap, d.base, d.log, d.written = op.tree, op.Zxid, nil, 0
	case zab.EffectTruncate:
		return d.truncate(s, op.Zxid)
	}
	return true
}

func (d *disk) truncate(s *server, zxid zk.Zxid) bool {
	if zxid == d.base {
		d.log, d.written = nil, 0
		return true
	}
	for i, r := range d.log {
		if r.Zxid == zxid {
			if s.w.opts.Mutant == CutComesBack {
				d.cut = append([]zab.Record(nil), d.log[i+1:]...)
			}
			d.log = d.log[:i+1]
			d.written = i + 1
			return true
		}
	}
	return false
}

// crash carries out a part of what is pending and loses the rest. With Calm nothing survives
// that was not synced.
func (d *disk) crash(s *server) {
	if n := len(d.pending); n > 0 && !s.w.opts.Calm {
		for i := range d.pending[:s.w.chance.below(n+1)] {
			d.do(s, &d.pending[i])
		}
	}
	keep := d.written
	if more := len(d.log) - keep; more > 0 && !s.w.opts.Calm {
		keep += s.w.chance.below(more + 1)
	}
	d.log = d.log[:keep:keep]
	d.written = keep
	d.pending, d.busy = nil, false
	d.bringBack()
}

// bringBack belongs to a mutant: the truncated records are in the log again, before those that
// were logged since.
func (d *disk) bringBack() {
	if len(d.cut) == 0 || d.base >= d.cut[0].Zxid {
		return
	}
	d.log = append(d.log, d.cut...)
	slices.SortStableFunc(d.log, func(a, b zab.Record) int { return cmp.Compare(a.Zxid, b.Zxid) })
	d.log = slices.CompactFunc(d.log, func(a, b zab.Record) bool { return a.Zxid == b.Zxid })
	d.written, d.cut = len(d.log), nil
}

// put queues an operation for the disk of a server.
func (s *server) put(op operation) {
	s.disk.pending = append(s.disk.pending, op)
	if op.Ticket != 0 {
		s.turnDisk()
	}
}

// turnDisk makes the disk do the next operations, up to one with a ticket.
func (s *server) turnDisk() {
	d := &s.disk
	if d.busy || d.held || !d.hasTicket() {
		return
	}
	d.busy = true
	life := s.life
	most := 10
	if s.w.chance.oneIn(20) {
		most = 300 // a slow moment
	}
	s.w.after(s.w.delay(most), func() {
		if s.life == life && !d.held {
			s.finishDisk()
		}
		if s.life == life {
			d.busy = false
			s.turnDisk()
		}
	})
}

func (d *disk) hasTicket() bool {
	for i := range d.pending {
		if d.pending[i].Ticket != 0 {
			return true
		}
	}
	return false
}

// finishDisk does everything up to the first ticket and reports it.
func (s *server) finishDisk() {
	d := &s.disk
	for len(d.pending) > 0 {
		op := d.pending[0]
		d.pending = d.pending[1:]
		ok := d.do(s, &op)
		if op.Kind == zab.EffectTruncate && ok && !s.w.opts.Mutant.keepsTree() {
			s.tree = d.state()
		}
		switch {
		case op.Ticket == 0:
			continue
		case !ok:
			s.push(zab.Event{Kind: zab.EventFailed, Ticket: op.Ticket})
		default:
			s.push(zab.Event{Kind: zab.EventDone, Ticket: op.Ticket})
		}
		return
	}
}
