package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
)

// snapshots decides when one is due. One is written at a time.
type snapshots struct {
	trigger *datadir.Trigger // of the disk goroutine
	logged  int64            // bytes of log since the last one began, also before the start; of the disk goroutine
	wanted  bool             // the trigger has fired; of the disk goroutine
	size    atomic.Int64     // bytes of the last one, before compression
	due     atomic.Bool
	busy    atomic.Bool
	last    atomic.Int64 // zxid of the last one
	lastMs  atomic.Int64 // when it was whole, by the wall clock; 0 before
	ready   atomic.Bool
	failed  atomic.Int64
	purge   chan struct{}         // a token when old ones should go at once
	current *replicadisk.Snapshot // the periodic one begun last; of the loop
}

// newSnapshots goes on from what was found: the log after the snapshot counts as if
// this process had written it. A server that is restarted before a snapshot is due
// would never take one otherwise, and each start would replay more.
func newSnapshots(trigger *datadir.Trigger, found *datadir.Recovered) *snapshots {
	n := &snapshots{trigger: trigger, purge: make(chan struct{}, 1)}
	n.size.Store(found.Info.Bytes)
	n.note(found.Records, found.Bytes)
	return n
}

// snapshotShare is the part of a snapshot's size that the log must have grown by
// before the next one. snapCount alone would have a large tree written whole for
// a few changes; so what is written for snapshots stays within a few times of
// what is logged, and what a restart replays within a part of what it loads.
const snapshotShare = 2

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

// maybeSnapshot starts a snapshot if one is due and none is under way. The loop
// calls it: no transaction is being applied. Between roles there is none: what
// the tree holds may not be committed then (ZOOKEEPER-1549).
func (s *Server) maybeSnapshot() {
	if !s.snaps.due.Load() || s.diskFull.Load() || !s.replica.Serving() || !s.snaps.busy.CompareAndSwap(false, true) {
		return
	}
	s.snaps.due.Store(false)
	s.disk.roll()
	b := replicadisk.BeginLogged(s.replica)
	s.snaps.current = b
	s.task(func() {
		defer s.snaps.busy.Store(false)
		s.takeSnapshot(b)
	})
}

// roleEnded gives up the snapshot that is under way. The loop calls it before its
// next step.
func (n *snapshots) roleEnded() {
	if n.busy.Load() {
		n.current.GiveUp()
		n.due.Store(true)
	}
}

func (s *Server) beginSnapshot() *replicadisk.Snapshot {
	return replicadisk.Begin(s.replica.Tree(), s.replica.Leases())
}

// takeSnapshot writes a snapshot. A full disk is no reason to stop: the log has
// what the snapshot would hold.
func (s *Server) takeSnapshot(b *replicadisk.Snapshot) {
	start := time.Now()
	if err := s.writeSnapshot(b); err != nil {
		if errors.Is(err, errStopped) {
			s.cfg.Logger.Info("the snapshot was abandoned", "zxid", b.Zxid().String(), "reason", err)
			return
		}
		s.snaps.failed.Add(1)
		if errors.Is(err, vfs.ErrNoSpace) || errors.Is(err, replicadisk.ErrCut) {
			s.cfg.Logger.Error("no snapshot was taken", "zxid", b.Zxid().String(), "error", err)
			return
		}
		s.fail(fmt.Errorf("snapshot %s: %w", b.Zxid(), err))
		return
	}
	s.meters.snapshots.noteTime(time.Since(start), 1)
	s.cfg.Logger.Info("snapshot taken", "zxid", b.Zxid().String(), "time", time.Since(start))
}

// writeSnapshot writes all of it, while transactions go on.
func (s *Server) writeSnapshot(b *replicadisk.Snapshot) error {
	bytes, err := b.Save(s.disk.data.Store(), takingTurns(s.halted))
	if err != nil {
		return err
	}
	s.snaps.last.Store(int64(b.Zxid()))
	s.snaps.lastMs.Store(s.cfg.Wall().UnixMilli())
	s.snaps.size.Store(bytes)
	s.snaps.ready.Store(true)
	return nil
}

// takingTurns returns a function to be called between the portions of long work: it waits for as long
// as the portion before has taken, then asks halt. So what clients wait for has the disk, and a
// core, for half of the time at least, and soon: a portion is short.
func takingTurns(halt func() error) func() error {
	began := time.Now()
	return func() error {
		time.Sleep(min(time.Since(began), pauseMax))
		began = time.Now()
		return halt()
	}
}

// pauseMax bounds how long a server that ends waits for a pause. A portion takes as long only
// on a disk that hangs.
const pauseMax = 100 * time.Millisecond

// at is when the last one was whole, zero before the first.
func (s *snapshots) at() time.Time {
	ms := s.lastMs.Load()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// halted is errStopped once the server ends.
func (s *Server) halted() error {
	if s.done.Err() != nil {
		return errStopped
	}
	return nil
}

// runPurges deletes what newer snapshots make superfluous: at the start, then at
// each interval, as Apache's does, and when the disk has become full.
func (s *Server) runPurges() {
	if s.cfg.PurgeInterval <= 0 {
		return
	}
	for s.halted() == nil {
		s.purge()
		timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(s.cfg.PurgeInterval))
		select {
		case <-timer.C():
		case <-s.snaps.purge:
		case <-s.done.Done():
		}
		timer.Stop()
	}
}

// purgeSoon has it done at once.
func (n *snapshots) purgeSoon() {
	select {
	case n.purge <- struct{}{}:
	default:
	}
}

func (s *Server) purge() {
	purged, err := s.disk.data.Store().Purge(max(3, s.cfg.PurgeRetain))
	if err != nil {
		s.cfg.Logger.Error("purge failed; nothing that is needed was deleted", "error", err)
		return
	}
	if n := len(purged.Snapshots) + len(purged.Logs); n > 0 {
		s.cfg.Logger.Info("purged", "snapshots", purged.Snapshots, "logs", purged.Logs)
	}
}
