package server

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/store"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/zk"
)

// Recovery is what a server found on disk when it started.
type Recovery struct {
	Last             zk.Zxid
	Snapshot         string // file name, "" if there was none
	Records          int    // replayed behind it
	DigestMismatches int
	Time             time.Duration
}

// recover brings the replica to the state that the directory holds, and opens
// the log behind it.
func (s *Server) recover() error {
	start := time.Now()
	st, err := store.Open(s.cfg.FS, store.Options{
		DataDir: s.cfg.DataDir, LogDir: s.cfg.DataLogDir,
		Log: txnlog.Options{
			PreallocBytes: s.cfg.PreallocBytes, SegmentBytesMax: s.cfg.LogBytesMax,
			PayloadBytesMax: recordBytesMax(s.cfg.FrameBytesMax), NoSync: s.cfg.NoSync,
		},
		Compression: s.cfg.Compression, BufferBytesMax: recordBytesMax(s.cfg.FrameBytesMax),
		NoCreateDirs: s.cfg.NoMkdir, NoCreateDB: s.cfg.NoAutoCreate, TrustEmpty: s.cfg.TrustEmpty,
	})
	if err != nil {
		return err
	}
	s.store = st
	found, err := st.Recover(func() store.Target { return newTarget(&s.cfg, s.now()) })
	if err != nil {
		return err
	}
	t := found.Target.(*target)
	s.use(t.replica)
	s.snaps.size.Store(found.Info.Bytes)
	s.recovery = Recovery{max(found.Last, 0), found.Snapshot.Name, found.Records, t.mismatches, time.Since(start)}
	s.reportRecovery(found, t)
	log, err := s.openLog(found)
	if err != nil {
		return err
	}
	s.disk = newDisk(log)
	s.replica.Start(s.now())
	return nil
}

// use makes r the server's replica.
func (s *Server) use(r *replica.Replica) {
	s.replica, s.reader = r, r.Reader()
	s.snaps = newSnapshots(store.NewTrigger(max(2, s.cfg.SnapCount), s.cfg.SnapBytes, rand.Int64N))
}

// openLog opens the log; a new history gets its first snapshot before, without
// which a log is refused.
func (s *Server) openLog(found *store.Recovered) (*txnlog.Log, error) {
	last := max(found.Last, 0)
	if found.Last < 0 || found.Fresh || found.NeedsSnapshot {
		if err := s.writeSnapshot(s.beginSnapshot()); err != nil {
			return nil, fmt.Errorf("first snapshot: %w", err)
		}
	}
	return s.store.OpenLog(last)
}

func (s *Server) reportRecovery(found *store.Recovered, t *target) {
	log := s.cfg.Logger
	for _, err := range found.Rejected {
		log.Warn("snapshot cannot be loaded, an older one was used", "error", err)
	}
	if found.Torn != nil {
		log.Warn("the log had a torn end, which was never acknowledged: cut off", "torn", found.Torn)
	}
	if t.mismatches > 0 {
		log.Error("digest of the tree differs from the log's", "times", t.mismatches, "first", t.firstMismatch)
	}
	log.Info("recovered", slog.String("zxid", s.recovery.Last.String()), slog.String("snapshot", s.recovery.Snapshot),
		slog.Int("records", s.recovery.Records), slog.Int("znodes", s.replica.Tree().Count()),
		slog.Int("sessions", s.replica.Sessions().Count()), slog.Duration("time", s.recovery.Time))
}

// recordBytesMax is the longest record that requests of the given size can make.
func recordBytesMax(frameBytesMax int) int { return 2 * max(frameBytesMax, 0xfffff) }

// target takes a recovered state into a new replica.
type target struct {
	replica       *replica.Replica
	loader        *tree.Loader
	fuzzy         snap.Info // digests are compared once replay has passed DigestZxid
	mismatches    int
	firstMismatch zk.Zxid
}

func newTarget(cfg *Config, now replica.Now) *target {
	return &target{replica: replica.New(cfg.replicaOptions(), now)}
}

func (t *target) load() *tree.Loader {
	if t.loader == nil {
		t.loader = t.replica.Tree().Load()
	}
	return t.loader
}

// Session implements store.Target.
func (t *target) Session(id zk.SessionID, timeoutMs int32) error {
	t.replica.RestoreSession(id, timeoutMs)
	return nil
}

// ACL implements store.Target.
func (t *target) ACL(id int64, entries []zk.ACL) error {
	t.load().ACL(id, entries)
	return nil
}

// Node implements store.Target.
func (t *target) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	return t.load().Node(path, data, acl, stat)
}

// Loaded implements store.LoadedTarget: the snapshot is whole. Its digest is
// that of the tree at a later zxid, if transactions went on while it was taken.
func (t *target) Loaded(file snap.File, info snap.Info) {
	t.finish(file.Zxid)
	t.fuzzy = info
	if info.DigestZxid <= file.Zxid && info.DigestZxid > 0 {
		t.compare(file.Zxid, info.Digest == t.replica.Tree().Digest())
	}
}

// compare counts a digest that differs.
func (t *target) compare(zxid zk.Zxid, equal bool) {
	if equal {
		return
	}
	if t.mismatches++; t.mismatches == 1 {
		t.firstMismatch = zxid
	}
}

// finish ends the loading of a snapshot of zxid.
func (t *target) finish(zxid zk.Zxid) {
	if t.loader != nil {
		t.loader.Finish(zxid)
		t.loader = nil
	}
}

// Replay implements store.Target.
func (t *target) Replay(zxid zk.Zxid, payload []byte) error {
	h, tx, digest, err := txn.Decode(payload)
	if err != nil {
		return err
	}
	if equal := t.replica.Replay(&h, &tx, digest); zxid >= t.fuzzy.DigestZxid {
		t.compare(zxid, equal)
	}
	return nil
}

var _ store.LoadedTarget = (*target)(nil)

func (c *Config) replicaOptions() replica.Options {
	return replica.Options{
		ServerID: 1, TickMs: c.TickTime.Milliseconds(),
		SessionMinMs: int32(c.SessionMin.Milliseconds()), SessionMaxMs: int32(c.SessionMax.Milliseconds()),
		Auth: c.Auth, ExtendedTypes: c.ExtendedTypes, EnforceQuota: c.EnforceQuota, NoDigest: c.NoDigest,
		ReconfigEnabled: c.ReconfigEnabled, TxnBytesMax: recordBytesMax(c.FrameBytesMax), ReapIntervalMs: c.ReapInterval.Milliseconds(),
		ReapPerMinute: c.ReapPerMinute, ContainerUnusedMs: c.ContainerUnused.Milliseconds(),
	}
}
