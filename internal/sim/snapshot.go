package sim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// walk takes the steps of a snapshot, with pauses in between: meanwhile transactions are
// applied to the part before the walk and to the part after it. done gets the result.
func (p *process) walk(mostMs int64, step func() (more bool, err error), done func(error)) {
	p.awake(p.random.between(0, mostMs), func() {
		more, err := step()
		if more && err == nil {
			p.walk(mostMs, step, done)
			return
		}
		done(err)
	})
}

// portion sets how many portions a snapshot takes.
func (p *process) portion(s *replicadisk.Snapshot) *replicadisk.Snapshot {
	s.PortionMax(1 + p.replica.Tree().Count()/max(p.w.plan.Portions, 1))
	return s
}

// maybeSnapshot begins a snapshot if one is due.
func (p *process) maybeSnapshot() {
	t := &p.turns
	if !p.up || t.full || t.saving || p.replica.Counts().Delivered < int64(t.nextAt) || !p.replica.Serving() {
		return
	}
	t.nextAt = int(p.replica.Counts().Delivered) + 1 + t.draw()
	t.disk.Log().Roll()
	s := p.portion(replicadisk.BeginLogged(p.replica))
	t.saving, t.periodic = true, s
	p.note("snapshot", s.Zxid())
	if onDisk := t.disk.Log().Synced(); s.Zxid() > onDisk {
		p.w.fail(fmt.Errorf("server %v snapshots %s, and its log is on disk up to %s: what comes after would leave a gap", p.node, s.Zxid(), onDisk))
	}
	mostMs := 10 * int64(p.w.plan.DiskMs) * max(p.w.plan.SnapSlow, 1)
	p.awake(p.random.between(0, mostMs), func() {
		v, err := s.SaveTo(t.disk.Store())
		if err != nil {
			p.snapshotted(s.Zxid(), err)
			return
		}
		p.walk(mostMs, v.Step, func(err error) {
			if err == nil {
				_, err = v.Commit()
			}
			v.Abort()
			p.snapshotted(s.Zxid(), err)
		})
	})
}

// snapshotted handles the end of a snapshot.
func (p *process) snapshotted(zxid zk.Zxid, err error) {
	t := &p.turns
	t.saving = false
	switch {
	case err == nil:
		p.w.tally.Snapshots++
		p.note("snapshotted", zxid)
		p.purge()
	case errors.Is(err, replicadisk.ErrCut), errors.Is(err, vfs.ErrNoSpace) && !t.crashed:
		p.note("no-snapshot", zxid)
	default:
		t.fatal(err)
	}
}

// purge deletes snapshots and logs that newer snapshots make superfluous.
func (p *process) purge() {
	if !p.random.oneIn(4) {
		return
	}
	if _, err := p.turns.disk.Store().Purge(3); p.turns.crashed {
		p.turns.fatal(err)
	} else if err != nil {
		p.note("no-purge", 0)
	}
}

// sendSnapshot begins a snapshot for a learner. It is written portion by portion, so it is
// fuzzy.
func (l *link) sendSnapshot(zxid zk.Zxid) {
	p := l.p
	s := p.portion(replicadisk.Begin(p.replica.Tree(), p.replica.Leases()))
	history, err := p.w.watcher.order.History(p.id, zxid)
	p.w.fail(err)
	p.w.tally.Snap++
	l.held = true
	var b bytes.Buffer
	e := snap.NewStreamEncoder(&b)
	s.Head(e)
	step := func() (bool, error) {
		if l.stream.closed {
			return false, errClosed
		}
		return s.Step(e)
	}
	p.walk(2*int64(p.w.plan.NetMs), step, func(err error) {
		s.End()
		l.held = false
		if err == nil {
			err = e.End(0, zk.Digest{}, 0)
		}
		switch {
		case l.stream.closed:
		case err != nil:
			l.stream.reset()
		default:
			l.sendState(b.Bytes(), history)
		}
	})
}

// errClosed ends the snapshot for a learner that is gone.
var errClosed = errors.New("the link is closed")

// sendState sends a snapshot, and then what has waited for it.
func (l *link) sendState(state []byte, history []zk.Zxid) {
	written := jute.AppendString(state, peerwire.SnapshotEnd)
	o := l.stream.other
	o.parcels = append(o.parcels, &parcel{from: o.passed + int64(len(o.in)+len(l.stream.out)), bytes: int64(len(written)), history: history})
	l.stream.send(written)
	l.stream.send(l.waiting)
	l.waiting = nil
	l.finish()
}
