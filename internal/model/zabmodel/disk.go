package zabmodel

import (
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// disk is the persistent state of a server. A crash loses pending operations, except for a
// prefix of them.
type disk struct {
	Accepted, Current uint32
	Snap              []zab.Record // the last snapshot
	Base              zk.Zxid      // of the snapshot
	Log               []zab.Record
	Written           int // number of synced records in the log
	Pending           []operation
	InForce           zk.Zxid // the version of the configuration in its file
}

// operation is an effect on its way to the disk.
type operation struct {
	Kind   zab.EffectKind
	Ticket zab.Ticket
	Epoch  uint32
	Zxid   zk.Zxid
	Record zab.Record
	Tree   []zab.Record
}

// last returns the zxid of the newest record or snapshot.
func (d *disk) last() zk.Zxid {
	if n := len(d.Log); n > 0 {
		return d.Log[n-1].Zxid
	}
	return d.Base
}

// state returns the tree that a recovery finds.
func (d *disk) state() []zab.Record {
	all := append([]zab.Record(nil), d.Snap...)
	for _, r := range d.Log {
		if n := len(all); n == 0 || all[n-1].Zxid < r.Zxid {
			all = append(all, r)
		}
	}
	return all
}

// holds reports whether a record would be at its place after a crash.
func (d *disk) holds(at int, r zab.Record) bool {
	durable := disk{Snap: d.Snap, Log: d.Log[:d.Written]}
	state := durable.state()
	return at < len(state) && state[at].Zxid == r.Zxid && string(state[at].Payload) == string(r.Payload)
}

// do carries out an operation. It returns false if the log cannot be truncated at the given
// zxid.
func (d *disk) do(op operation) bool {
	switch op.Kind {
	case zab.EffectAppend:
		d.Log = append(d.Log, op.Record)
	case zab.EffectSync:
		d.Written = len(d.Log)
	case zab.EffectSetAccepted:
		must(op.Epoch >= d.Accepted, "Z2: the accepted epoch on disk is lowered")
		d.Accepted = op.Epoch
	case zab.EffectSetCurrent:
		must(op.Epoch >= d.Current, "Z2: the current epoch on disk is lowered")
		d.Current = op.Epoch
	case zab.EffectSaveSnapshot:
		d.Snap, d.Base, d.Log, d.Written = op.Tree, op.Zxid, nil, 0
	case zab.EffectTruncate:
		return d.truncate(op.Zxid)
	}
	return true
}

func must(holds bool, message string) {
	if !holds {
		panic(message)
	}
}

func (d *disk) truncate(zxid zk.Zxid) bool {
	if zxid == d.Base {
		d.Log, d.Written = nil, 0
		return true
	}
	for i, r := range d.Log {
		if r.Zxid == zxid {
			d.Log = d.Log[:i+1]
			d.Written = i + 1
			return true
		}
	}
	return false
}

// crash completes the first of the pending operations and loses the rest. If any pending
// operation was completed, all records written before the crash have reached the disk, too,
// even without a sync.
func (d *disk) crash(done int) {
	for _, op := range d.Pending[:done] {
		d.do(op)
	}
	if done > 0 {
		d.Written = len(d.Log)
	}
	d.Log = d.Log[:d.Written]
	d.Pending = nil
}
