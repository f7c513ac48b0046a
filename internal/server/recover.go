package server

import (
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Recovery is what a server found on disk when it started.
type Recovery struct {
	Last             zk.Zxid
	Snapshot         string // name of the file, "" if there was none
	Records          int    // how many were replayed after it
	DigestMismatches int
	Time             time.Duration
	SnapshotTime     time.Duration // until a snapshot was loaded, or none was found
	LogTime          time.Duration // from then on until the log was replayed
}

// recover opens the data directory and makes a replica of what it holds.
func (s *Server) recover() error {
	start := time.Now()
	loaded := start
	opts := s.cfg.durableOptions()
	opts.Loaded = func() {
		if s.replica == nil { // but not at a reload
			loaded = time.Now()
		}
	}
	d, err := replicadisk.Open(s.cfg.FS, opts)
	if err != nil {
		return err
	}
	s.disk = newDisk(d)
	found, err := d.Recover()
	if err != nil {
		return err
	}
	replayed := time.Now()
	s.snaps = newSnapshots(datadir.NewTrigger(max(2, s.cfg.SnapCount), s.cfg.SnapBytes, rand.Int64N), found.Store)
	s.replica = replica.New(s.cfg.replicaOptions(), s.cfg.Ensemble, found.Recovered, s.now())
	s.reader = s.replica.Reader()
	s.reader.Run = crand.Text()
	limits := s.cfg.Throttle.Watches
	limits.Refused = s.refusedWatchOf
	s.reader.Watches.Limit(limits)
	s.warnMap()
	s.recovery = Recovery{
		max(found.Store.Last, 0), found.Store.Snapshot.Name, found.Store.Records, found.Mismatches, time.Since(start),
		loaded.Sub(start), replayed.Sub(loaded),
	}
	s.reportRecovery(found)
	if err := s.replica.UnreadableConfig(); err != nil {
		return fmt.Errorf("the data has a newer configuration of the ensemble than the configuration file, "+
			"and this server cannot read it: %w; replace it with a reconfig on a server that can, "+
			"or put its lines into the file and correct them on all servers", err)
	}
	if err := s.cfg.agrees(s.replica.LoggedConfig()); err != nil {
		return err
	}
	if found.Store.Rejoining {
		s.cfg.Logger.Warn(d.Store().RejoiningText())
	}
	if text := d.Store().MadeEpochsText(); text != "" {
		s.cfg.Logger.Warn(text)
	}
	return nil
}

// agrees refuses a start with a configuration that is incompatible with a newer one that was
// logged, nil for none: this server would count by one of the two.
func (c *Config) agrees(logged *ensemble.Config) error {
	switch {
	case logged == nil:
	case !logged.Meets(c.Ensemble) && (c.Pending == nil || !logged.Meets(c.Pending)): // all hosts may change at once
		return fmt.Errorf("the data belongs to an ensemble that was reconfigured to %s (version=%x), and the configuration "+
			"names none of its hosts: if it was copied to make another ensemble, write version=%x into the file of "+
			"dynamicConfigFile on each server, or end its name in .%x; otherwise write those servers into the configuration",
			strings.Join(logged.Lines(), ", "), logged.Version, logged.Version, logged.Version)
	case !c.ReconfigEnabled && !logged.SamePeers(c.Ensemble):
		return fmt.Errorf("the ensemble was reconfigured to %s (version=%x), but the configuration has other servers, and "+
			"reconfigEnabled is false: set it to true on all servers, or write those servers into the configuration; if you have "+
			"changed the servers by hand since, also write version=%x into the file of dynamicConfigFile on each of them, or end its name in .%x",
			strings.Join(logged.Lines(), ", "), logged.Version, logged.Version, logged.Version)
	}
	return nil
}

func (s *Server) reportRecovery(found *replicadisk.Found) {
	log := s.cfg.Logger
	for _, err := range found.Store.Rejected {
		log.Warn("snapshot cannot be loaded, an older one was used", "error", err)
	}
	torn, lost := found.Store.Torn, found.Store.Lost
	if lost != nil {
		log.Error("the log has lost transactions that were acknowledged, unless this is a copy of a directory in use: "+
			"check the disk", "error", lost)
	} else if torn != nil {
		log.Warn("the log had a torn end, which was never acknowledged: truncated", "file", torn.File, "offset", torn.Offset,
			"found", torn.Found)
	}
	if found.Mismatches > 0 {
		log.Error("digest of the tree differs from the log's", "times", found.Mismatches, "first", found.FirstMismatch)
	}
	log.Info("recovered", slog.String("zxid", s.recovery.Last.String()), slog.String("snapshot", s.recovery.Snapshot),
		slog.Int("records", s.recovery.Records), slog.Int("znodes", s.replica.Tree().Count()),
		slog.Int("sessions", s.replica.Sessions().Count()), slog.Duration("time", s.recovery.Time))
}

// recordBytesMax returns the maximum size of a record that is written, as in Apache ZooKeeper,
// but at most the maximum size of a znode's data.
func (c *Config) recordBytesMax() int {
	const extraMin = 1 << 10
	extra := c.ExtraBytesMax
	if extra == 0 {
		extra = c.FrameBytesMax
	}
	return int(min(int64(c.FrameBytesMax)+int64(max(extra, extraMin)), tree.DataMax)) // the sum may be more than an int of 32 bits
}

// ReadBytesMax returns the maximum size of a record, or of a part of a snapshot, that is read:
// at least the size that a server with the usual settings may have written.
func (c *Config) ReadBytesMax() int { return max(c.recordBytesMax(), 2*wire.FrameBytesMax) }

// Check reports what a start with the configuration would do with its directories, and changes
// nothing. See datadir.Check. If known is false, the configuration has the usual settings
// instead of the server's own, so the directories may belong to an ensemble.
func Check(c Config, known bool) (*datadir.Report, error) {
	options := c.durableOptions()
	options.Ensemble = options.Ensemble || !known
	return replicadisk.Check(c.FS, options)
}

func (c *Config) durableOptions() replicadisk.Options {
	return replicadisk.Options{
		Store: datadir.Options{
			DataDir: c.DataDir, LogDir: c.DataLogDir, Number: crand.Text, Beside: func(f func()) { go f() },
			Log: txnlog.Options{
				PreallocBytes: c.PreallocBytes, SegmentBytesMax: c.LogBytesMax,
				PayloadBytesMax: c.ReadBytesMax(), NoSync: c.NoSync,
			},
			Compression: c.Compression, BufferBytesMax: c.ReadBytesMax(),
			NoCreateDirs: c.NoMkdir, NoCreateDB: c.NoAutoCreate, TrustEmpty: c.TrustEmpty,
		},
		ExtendedTypes: c.ExtendedTypes, Ensemble: c.Ensemble != nil, RecentMax: c.HistoryMax,
	}
}

func (c *Config) replicaOptions() replica.Options {
	tickMs := c.TickTime.Milliseconds()
	key := c.SessionKey
	if key == ([16]byte{}) {
		_, _ = crand.Read(key[:]) // it never returns an error: it ends the program instead
	}
	return replica.Options{
		SessionKey: key,
		Zab: zab.Options{
			ID: c.ID, Life: rand.Int64() | 1, Observer: c.Observer, TickMs: tickMs, InitMs: int64(c.InitLimit) * tickMs,
			SyncMs: c.silence().Milliseconds(), HistoryMax: c.HistoryMax, Masters: c.ObserverPort > 0,
		},
		Election:     fle.Config{FinalizeMs: c.ElectionFinalize.Milliseconds(), ResendMinMs: 200, ResendMaxMs: 60_000},
		Prep:         prep.Options{EnforceQuota: c.EnforceQuota, NoDigest: c.NoDigest, TxnBytesMax: c.recordBytesMax(), EphemeralBytesMax: c.EphemeralBytesMax},
		SessionMinMs: int32(c.SessionMin.Milliseconds()), SessionMaxMs: int32(c.SessionMax.Milliseconds()),
		Auth: c.Auth, ExtendedTypes: c.ExtendedTypes, LocalSessions: c.LocalSessions, UpgradeSessions: c.UpgradeSessions, ReadOnly: c.ReadOnlyMode, NoClientsOfLeader: c.NoClientsOfLeader, Oracle: c.Oracle != nil,
		LinearizableReads: c.LinearizableReads, ReconfigEnabled: c.ReconfigEnabled, Reconfig: c.rules(), Pending: c.Pending,
		ReapIntervalMs: c.ReapInterval.Milliseconds(), ReapPerMinute: c.ReapPerMinute, ContainerUnusedMs: c.ContainerUnused.Milliseconds(), Audit: c.Audit.Enabled,
	}
}

// silence returns how long servers may receive nothing from each other.
func (c *Config) silence() time.Duration {
	if c.SilenceTime > 0 {
		return c.SilenceTime
	}
	return time.Duration(c.SyncLimit) * c.TickTime
}

// extendedIDMax is the highest number of a server with extended types, as in ZooKeeper: the
// owner of a TTL znode begins with the next higher byte.
const extendedIDMax = 254

// rules returns the rules of a reconfig: a server that joins must have a number with which it
// can be started.
func (c *Config) rules() ensemble.Rules {
	rules := c.Reconfig
	if c.ExtendedTypes {
		rules.IDMax = extendedIDMax
	}
	return rules
}

// check refuses a configuration with which no server or ensemble can work.
func (c *Config) check() error {
	switch {
	case c.ExtendedTypes && c.ID > extendedIDMax:
		return fmt.Errorf("the session ids of server %d would look like marks of TTL znodes: with extendedTypesEnabled, "+
			"a server's number (myid) is %d at most", c.ID, extendedIDMax)
	case c.Ensemble == nil:
		return nil
	case c.Ensemble.Member(c.ID) == nil && !c.ReconfigEnabled:
		return fmt.Errorf("server %d is not among the servers of the configuration: add the line server.%d=..., or give it another number (myid)", c.ID, c.ID)
	case c.InitLimit <= 0 || c.silence() <= 0:
		return fmt.Errorf("initLimit and syncLimit must be positive: they say how many ticks servers wait for each other")
	}
	return nil
}
