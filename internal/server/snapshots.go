package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// snapshots decides when a snapshot is due. One is written at a time.
type snapshots struct {
	trigger *datadir.Trigger // of the disk goroutine
	logged  int64            // bytes of log since the last one began, including before the start; of the disk goroutine
	wanted  bool             // the trigger has fired; of the disk goroutine
	size    atomic.Int64     // size of the last one in bytes, before compression
	due     atomic.Bool
	busy    atomic.Bool
	last    atomic.Int64 // zxid of the last one
	lastMs  atomic.Int64 // when it was complete, by the wall clock; 0 before the first
	ready   atomic.Bool
	failed  atomic.Int64
	purge   chan struct{}         // a token when old ones should be deleted at once
	current *replicadisk.Snapshot // the periodic one that began last; of the loop
}

// newSnapshots continues from what recovery found: the log after the snapshot counts as if this
// process had written it. Otherwise a server that is always restarted before a snapshot is due
// would never take one, and each start would replay more.
func newSnapshots(trigger *datadir.Trigger, found *datadir.Recovered) *snapshots {
	n := &snapshots{trigger: trigger, purge: make(chan struct{}, 1)}
	n.size.Store(found.Info.Bytes)
	n.note(found.Records, found.Bytes)
	return n
}

// snapshotShare is the divisor of a snapshot's size by which the log must have grown before the
// next snapshot. With snapCount alone a large tree would be written completely for a few
// changes. So what is written for snapshots stays within a few times of what is logged, and
// what a restart replays stays within a part of what it loads.
const snapshotShare = 2

// note counts what was logged. A snapshot is due when the trigger (snapCount,
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

// maybeSnapshot starts a snapshot if one is due and none is under way. The loop calls it when
// no transaction is being applied. Between roles none is started, because what the tree holds
// then may not be committed (ZOOKEEPER-1549).
func (s *Server) maybeSnapshot() {
	if !s.snaps.due.Load() || s.enterSnapshot() != nil {
		return
	}
	s.snaps.due.Store(false)
	s.startSnapshot(func(zk.Zxid, error) {})
}

// Errors of Snapshot.
var (
	ErrSnapshotBusy = errors.New("a snapshot is being written already: ask again when it is complete")
	errNotServing   = errors.New("the server does not serve clients now, so its tree may not be committed")
)

// enterSnapshot takes the place of the one snapshot that is written at a time, or says why none
// can be taken now.
func (s *Server) enterSnapshot() error {
	switch {
	case s.diskFull.Load():
		return vfs.ErrNoSpace
	case !s.replica.Serving():
		return errNotServing
	case !s.snaps.busy.CompareAndSwap(false, true):
		return ErrSnapshotBusy
	}
	return nil
}

// startSnapshot starts the snapshot whose place was taken, and tells done about its end.
func (s *Server) startSnapshot(done func(zk.Zxid, error)) {
	s.disk.roll()
	b := replicadisk.BeginLogged(s.replica)
	s.snaps.current = b
	s.task(func() {
		err := s.takeSnapshot(b)
		s.snaps.busy.Store(false)
		done(b.Zxid(), err)
	})
}

// Snapshot takes a snapshot now, as if one were due, and returns its zxid and its file, which
// the caller closes. Like every snapshot it stays in the data directory until it is purged, and
// may have changes that were made while it was written. Errors are ErrSnapshotBusy,
// vfs.ErrNoSpace, that of ctx, and those of a server that does not serve, or ends.
func (s *Server) Snapshot(ctx context.Context) (zk.Zxid, vfs.File, error) {
	type result struct {
		zxid zk.Zxid
		err  error
	}
	ended, err := make(chan result, 1), errStopped
	s.inspect(func(*replica.Replica) {
		if err = s.enterSnapshot(); err == nil {
			s.startSnapshot(func(zxid zk.Zxid, err error) { ended <- result{zxid, err} })
		}
	})
	if err != nil {
		return 0, nil, err
	}
	select {
	case r := <-ended:
		if r.err != nil {
			return 0, nil, r.err
		}
		file, err := s.cfg.FS.Open(filepath.Join(s.SnapDir(), snap.Name(r.zxid, s.cfg.Compression)))
		return r.zxid, file, err
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
}

// MayCopy returns nil if a credential of a client of the admin port proves an identity that has
// all permissions on the root, which Apache's admin server demands for a snapshot. Otherwise the
// error is zk.ErrAuthFailed or zk.ErrNoAuth.
func (s *Server) MayCopy(scheme string, credential []byte, client netip.AddrPort) error {
	rules := s.reader.Auth
	proved, err := rules.Authenticate(scheme, credential, client.Addr().String())
	if err != nil || len(proved) == 0 {
		s.stats.authFailed.Add(1)
		return zk.ErrAuthFailed
	}
	if rules.Guessed(proved) {
		s.noteGuess(client)
	}
	s.reader.Tree.RLock()
	defer s.reader.Tree.RUnlock()
	root, _ := s.reader.Tree.Find("/")
	for perm := zk.PermRead; perm <= zk.PermAdmin; perm <<= 1 {
		if !rules.Allow(root.ACL(), perm, proved) {
			return zk.ErrNoAuth
		}
	}
	return nil
}

// roleEnded gives up the snapshot that is under way. The loop calls it before its next step.
func (n *snapshots) roleEnded() {
	if n.busy.Load() {
		n.current.GiveUp()
		n.due.Store(true)
	}
}

func (s *Server) beginSnapshot() *replicadisk.Snapshot {
	return replicadisk.Begin(s.replica.Tree(), s.replica.Leases())
}

// takeSnapshot writes a snapshot. A full disk is no reason to stop: the log has what the
// snapshot would contain. Nor are files that have gone: only this process has it then.
func (s *Server) takeSnapshot(b *replicadisk.Snapshot) error {
	start := time.Now()
	if err := s.writeSnapshot(b); err != nil {
		if errors.Is(err, errStopped) || errors.Is(err, replicadisk.ErrCut) { // the next role takes another one
			s.cfg.Logger.Info("the snapshot was abandoned", "zxid", b.Zxid().String(), "reason", err)
			return err
		}
		s.snaps.failed.Add(1)
		if errors.Is(err, vfs.ErrNoSpace) || errors.Is(err, fs.ErrNotExist) {
			s.cfg.Logger.Error("no snapshot was taken", "zxid", b.Zxid().String(), "error", err)
			return err
		}
		s.fail(fmt.Errorf("snapshot %s: %w", b.Zxid(), err))
		return err
	}
	s.meters.snapshots.noteTime(time.Since(start), 1)
	s.cfg.Logger.Info("snapshot taken", "zxid", b.Zxid().String(), "time", time.Since(start))
	return nil
}

// writeSnapshot writes all of it while transactions go on.
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

// takingTurns returns a function to call between the portions of long work. It waits for as
// long as the last portion has taken, and then calls halt. So clients' work has the disk, and a
// core, for at least half of the time, and soon, because a portion is short.
func takingTurns(halt func() error) func() error {
	began := time.Now()
	return func() error {
		time.Sleep(min(time.Since(began), pauseMax))
		began = time.Now()
		return halt()
	}
}

// pauseMax bounds how long a server that ends waits for such a pause. A portion takes that long
// only on a disk that hangs.
const pauseMax = 100 * time.Millisecond

// at returns when the last one was complete; zero before the first.
func (s *snapshots) at() time.Time {
	ms := s.lastMs.Load()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// halted returns errStopped once the server ends.
func (s *Server) halted() error {
	if s.done.Err() != nil {
		return errStopped
	}
	return nil
}

// runPurges deletes what newer snapshots make superfluous: at the start, then at each interval,
// as Apache's server does, and when the disk has become full.
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

// purgeSoon makes the next purge happen at once.
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
