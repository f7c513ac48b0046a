package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/store"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// snapshots decides when one is due. One is written at a time.
type snapshots struct {
	trigger *store.Trigger // of the disk goroutine
	logged  int64          // bytes of log since the last one began; of the disk goroutine
	wanted  bool           // the trigger has fired; of the disk goroutine
	size    atomic.Int64   // bytes of the last one, before compression
	due     atomic.Bool
	busy    atomic.Bool
	last    atomic.Int64 // zxid of the last one
	ready   atomic.Bool
	failed  atomic.Int64
	purgeMs int64 // when to purge next; of the snapshot goroutine
}

func newSnapshots(trigger *store.Trigger) *snapshots { return &snapshots{trigger: trigger} }

// snapshotShare is the part of a snapshot's size that the log must have grown by
// before the next one. snapCount alone would have a large tree written whole for
// a few changes; so what is written for snapshots stays within a few times of
// what is logged, and what a restart replays within a part of what it loads.
const snapshotShare = 4

// note counts what the log got. A snapshot is due when the trigger (snapCount,
// snapSizeLimitInKb) has fired and the log has grown by its share.
func (n *snapshots) note(txns int, bytes int64) {
	n.logged += bytes
	if n.trigger.Note(txns, bytes) {
		n.wanted = true
		n.trigger.Reset()
	}
	if n.wanted && n.logged >= n.size.Load()/snapshotShare {
		n.wanted, n.logged = false, 0
		n.due.Store(true)
	}
}

// beginning is what a snapshot starts with, taken between two transactions:
// everything at or below its zxid will be in it.
type beginning struct {
	zxid   zk.Zxid
	leases []session.Lease
	acls   []aclList
	scan   *tree.Scan
}

type aclList struct {
	id      int64
	entries []zk.ACL
}

// maybeSnapshot starts a snapshot if one is due and none is under way. The loop
// calls it: no transaction is being applied.
func (s *Server) maybeSnapshot() {
	if !s.snaps.due.Load() || s.diskFull.Load() || !s.snaps.busy.CompareAndSwap(false, true) {
		return
	}
	s.snaps.due.Store(false)
	s.disk.roll()
	b := s.beginSnapshot()
	s.task(func() {
		defer s.snaps.busy.Store(false)
		s.takeSnapshot(b)
	})
}

func (s *Server) beginSnapshot() *beginning {
	t := s.replica.Tree()
	b := &beginning{zxid: t.LastZxid(), leases: s.replica.Leases()}
	t.ACLs(func(id int64, entries []zk.ACL) { b.acls = append(b.acls, aclList{id, entries}) })
	b.scan = t.NewScan()
	return b
}

// takeSnapshot writes a snapshot and purges old ones. A full disk is no reason
// to stop: the log has what the snapshot would hold.
func (s *Server) takeSnapshot(b *beginning) {
	start := time.Now()
	if err := s.writeSnapshot(b); err != nil {
		s.snaps.failed.Add(1)
		if errors.Is(err, vfs.ErrNoSpace) || errors.Is(err, errStopped) {
			s.cfg.Logger.Error("no snapshot was taken", "zxid", b.zxid.String(), "error", err)
			return
		}
		s.fail(fmt.Errorf("snapshot %s: %w", b.zxid, err))
		return
	}
	s.cfg.Logger.Info("snapshot taken", "zxid", b.zxid.String(), "time", time.Since(start))
	s.maybePurge()
}

// writeSnapshot writes all of it, while transactions go on.
func (s *Server) writeSnapshot(b *beginning) error {
	t := s.replica.Tree()
	defer func() {
		t.RLock()
		b.scan.End()
		t.RUnlock()
	}()
	w, err := s.store.NewSnapshot(b.zxid)
	if err != nil {
		return err
	}
	defer w.Abort()
	w.Begin(len(b.leases), len(b.acls))
	for _, l := range b.leases {
		w.Session(l.ID, l.TimeoutMs)
	}
	for _, l := range b.acls {
		w.ACL(l.id, l.entries)
	}
	if err := s.writeNodes(w, b.scan); err != nil {
		return err
	}
	t.RLock()
	last, digest := t.LastZxid(), t.Digest()
	t.RUnlock()
	w.End(last, digest, last)
	if err := w.Commit(); err != nil {
		return err
	}
	s.snaps.last.Store(int64(b.zxid))
	s.snaps.size.Store(w.Bytes())
	s.snaps.ready.Store(true)
	return nil
}

// scanStep bounds how long the tree is kept from the loop at a time: so many
// bytes of znodes are copied, then written with the tree free.
const scanStep = 64 << 10

// writeNodes copies znodes out of the tree in steps and writes each step with
// the tree unlocked: no I/O under the lock.
func (s *Server) writeNodes(w *snap.Writer, scan *tree.Scan) error {
	t := s.replica.Tree()
	var step []tree.Entry
	var data []byte
	for more := true; more; {
		if s.done.Err() != nil {
			return errStopped
		}
		step, data = step[:0], data[:0]
		t.RLock()
		for len(data) < scanStep && len(step) < scanStep/64 {
			var e tree.Entry
			if more = scan.Next(&e); !more {
				break
			}
			if len(e.Data) > 0 { // null stays null, empty stays empty
				start := len(data)
				data = append(data, e.Data...)
				e.Data = data[start:len(data):len(data)]
			}
			step = append(step, e)
		}
		t.RUnlock()
		for i := range step {
			if err := w.Node(step[i].Path, step[i].Data, step[i].ACL, &step[i].Stat); err != nil {
				return err
			}
		}
	}
	return nil
}

// maybePurge deletes what newer snapshots make superfluous.
func (s *Server) maybePurge() {
	now := s.monoMs()
	if s.cfg.PurgeInterval <= 0 || now < s.snaps.purgeMs {
		return
	}
	s.snaps.purgeMs = now + s.cfg.PurgeInterval.Milliseconds()
	purged, err := s.store.Purge(max(3, s.cfg.PurgeRetain))
	if err != nil {
		s.cfg.Logger.Error("purge failed, nothing that is needed was deleted", "error", err)
		return
	}
	if n := len(purged.Snapshots) + len(purged.Logs); n > 0 {
		s.cfg.Logger.Info("purged", "snapshots", purged.Snapshots, "logs", purged.Logs)
	}
}
