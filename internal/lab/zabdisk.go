package lab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// disk is the persistent state of a server of an ensemble. A crash loses pending operations
// and records that were not synced.
type disk struct {
	accepted, current uint32
	snapshot          []zab.Record
	base              zk.Zxid // of the snapshot
	log               []zab.Record
	written           int // number of durable records in the log
	pending           []operation
	busy, full        bool
	configs           configs
}

// operation is an effect on its way to the disk; for a snapshot it includes the tree.
type operation struct {
	zab.Effect
	tree []zab.Record
}

// last returns the zxid of the newest record or snapshot.
func (d *disk) last() zk.Zxid {
	if n := len(d.log); n > 0 {
		return d.log[n-1].Zxid
	}
	return d.base
}

// durable returns the newest zxid that survives a crash.
func (d *disk) durable() zk.Zxid {
	if d.written > 0 {
		return d.log[d.written-1].Zxid
	}
	return d.base
}

// state returns the tree that a recovery finds.
func (d *disk) state() []zab.Record {
	all := slices.Clone(d.snapshot)
	for _, r := range d.log {
		if n := len(all); n == 0 || all[n-1].Zxid < r.Zxid {
			all = append(all, r)
		}
	}
	return all
}

// crash loses everything that was not synced.
func (d *disk) crash() {
	d.log = slices.Clip(d.log[:d.written])
	d.pending, d.busy = nil, false
}

// finish completes all pending operations.
func (d *disk) finish() {
	for _, op := range d.pending {
		d.do(op)
	}
	d.pending = nil
}

// do carries out an operation. It returns false if the log cannot be truncated at the given
// zxid.
func (d *disk) do(op operation) bool {
	switch op.Kind {
	case zab.EffectAppend:
		d.log = append(d.log, op.Record)
	case zab.EffectSync:
		d.written = len(d.log)
	case zab.EffectSetAccepted:
		d.accepted = op.Epoch
	case zab.EffectSetCurrent:
		d.current = op.Epoch
	case zab.EffectSaveSnapshot:
		d.snapshot, d.base, d.log, d.written = op.tree, op.Zxid, nil, 0
	case zab.EffectTruncate:
		return d.truncate(op.Zxid)
	}
	return true
}

func (d *disk) truncate(zxid zk.Zxid) bool {
	keep := 0
	if zxid != d.base {
		at := slices.IndexFunc(d.log, func(r zab.Record) bool { return r.Zxid == zxid })
		if at < 0 {
			return false
		}
		keep = at + 1
	}
	d.log, d.written = slices.Clip(d.log[:keep]), keep
	return true
}

// store queues an operation for the disk.
func (z *zabServer) store(op operation) {
	z.disk.pending = append(z.disk.pending, op)
	if op.Ticket != 0 {
		z.turnDisk()
	}
}

// turnDisk makes the disk work up to the next ticket. A full disk stores no record, and
// everything after a record waits; epochs need no space.
func (z *zabServer) turnDisk() {
	d := z.disk
	next := slices.IndexFunc(d.pending, func(op operation) bool { return op.Ticket != 0 })
	if d.busy || next < 0 {
		return
	}
	if d.full && slices.ContainsFunc(d.pending[:next+1], func(op operation) bool { return op.Kind == zab.EffectAppend }) {
		return
	}
	d.busy = true
	z.server.after(diskUs, func() {
		d.busy = false
		z.finishDisk()
		z.turnDisk()
	})
}

// finishDisk completes everything up to the first ticket, and reports the ticket.
func (z *zabServer) finishDisk() {
	d := z.disk
	for len(d.pending) > 0 {
		op := d.pending[0]
		d.pending = d.pending[1:]
		ok := d.do(op)
		if op.Kind == zab.EffectTruncate && ok {
			z.tree = d.state()
			d.configs.reload(z.tree)
			z.vote(fle.Reconfigured{Ensemble: d.configs.ensembleOf()})
		}
		switch {
		case op.Ticket == 0:
			continue
		case !ok:
			z.push(zab.Event{Kind: zab.EventFailed, Ticket: op.Ticket})
		default:
			z.push(zab.Event{Kind: zab.EventDone, Ticket: op.Ticket})
		}
		return
	}
}
