package zabmodel

import (
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// disk is what a server keeps. What is pending is lost by a crash, except for a
// prefix of it.
type disk struct {
	Accepted, Current uint32
	Snap              []zab.Record // the tree as last saved
	Base              zk.Zxid      // of that
	Log               []zab.Record
	Written           int // of the log: the rest is not synced
	Pending           []operation
	InForce           zk.Zxid // the version of the configuration, as its file says
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

// last is the zxid of the newest record or snapshot.
func (d *disk) last() zk.Zxid {
	if n := len(d.Log); n > 0 {
		return d.Log[n-1].Zxid
	}
	return d.Base
}

// state is what recovery makes of the disk.
func (d *disk) state() []zab.Record {
	all := append([]zab.Record(nil), d.Snap...)
	for _, r := range d.Log {
		if n := len(all); n == 0 || all[n-1].Zxid < r.Zxid {
			all = append(all, r)
		}
	}
	return all
}

// holds reports whether a crash would leave a record at its place.
func (d *disk) holds(at int, r zab.Record) bool {
	durable := disk{Snap: d.Snap, Log: d.Log[:d.Written]}
	state := durable.state()
	return at < len(state) && state[at].Zxid == r.Zxid && string(state[at].Payload) == string(r.Payload)
}

// do carries an operation out. It returns false if the log cannot be truncated there.
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

// crash does the first of what is pending and loses the rest. Of what was not
// synced, what was written before the crash has reached the disk if any of the
// pending has.
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
