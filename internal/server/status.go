package server

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/audit"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// stats are a server's totals since the start or the last reset.
type stats struct {
	received   atomic.Int64
	sentGone   atomic.Int64 // sent by connections that are gone, minus what was sent before a reset
	connects   atomic.Int64
	authFailed atomic.Int64
	handshakes lobby.Failures
	guesses    lobby.Failures // wrong passwords of the super user
	unnamed    lobby.Failures // sessions that have expired without a line of their own, see tellExpired
	unasked    lobby.Failures // watchers that were disconnected, see warnUnasked
	refusals   [refusals]lobby.Failures
	waits      atomic.Int64 // requests that waited for their turn
	latency    latency
}

// latency has the shortest, longest and mean time of requests.
type latency struct {
	mu                    sync.Mutex
	count                 int64
	totalMs, minMs, maxMs int64
}

func (l *latency) note(d time.Duration, n int) { l.noteMs(d.Milliseconds(), n) }

func (l *latency) noteMs(ms int64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 || ms < l.minMs {
		l.minMs = ms
	}
	l.count += int64(n)
	l.totalMs += ms * int64(n)
	l.maxMs = max(l.maxMs, ms)
}

func (l *latency) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count, l.totalMs, l.minMs, l.maxMs = 0, 0, 0, 0
}

// Latency is the time that requests took in this server.
type Latency struct {
	MinMs, MaxMs int64
	AvgMs        float64
}

func (l *latency) report() Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Latency{MinMs: l.minMs, MaxMs: l.maxMs}
	if l.count > 0 {
		out.AvgMs = float64(l.totalMs) / float64(l.count)
	}
	return out
}

// connStats are one connection's figures, guarded by its out.mu.
type connStats struct {
	received, sent int64
	lastOp         zk.Op
	hasOp          bool
	lastXid        zk.Xid
	lastZxid       zk.Zxid
	respondedMs    int64 // -1: no reply since a reset
	latency        connLatency
	waiting        []waiting // the requests that the loop has, in order
}

// waiting is when a request arrived, and its memory.
type waiting struct{ cameMs, bytes int64 }

type connLatency struct{ count, total, min, max, last int64 }

// note counts n requests that took ms each.
func (l *connLatency) note(ms, n int64) {
	if l.count == 0 || ms < l.min {
		l.min = ms
	}
	l.count += n
	l.total += ms * n
	l.max = max(l.max, ms)
	l.last = ms
}

// note counts a request. A request that is answered at once already has its zxid, and its
// latency is known when its batch has been handled.
func (t *connStats) note(r *zk.Request, zxid zk.Zxid, nowMs int64) {
	t.received++
	if r.Op == zk.OpAuth || r.Op == zk.OpSASL {
		return // ZooKeeper answers these before it updates the connection's figures
	}
	t.lastOp, t.hasOp = r.Op, true
	if r.Xid >= 0 {
		t.lastXid = r.Xid // only real requests of the client
	}
	if zxid != 0 {
		t.lastZxid, t.respondedMs = zxid, nowMs
	}
}

func (t *connStats) wait(nowMs, bytes int64) { t.waiting = append(t.waiting, waiting{nowMs, bytes}) }

// forget returns the memory of all waiting requests, which nobody answers any more.
func (t *connStats) forget() (bytes int64) {
	for i := range t.waiting {
		bytes += t.waiting[i].bytes
	}
	t.waiting = nil
	return bytes
}

// answered counts a reply of the loop, to the request that waited longest, and returns the
// memory of that request.
func (t *connStats) answered(zxid zk.Zxid, s *Server) (bytes int64) {
	t.sent++
	t.lastZxid = zxid
	if len(t.waiting) == 0 {
		return 0
	}
	nowMs := s.loopMs
	ms := nowMs - t.waiting[0].cameMs
	bytes = t.waiting[0].bytes
	t.waiting = t.waiting[1:]
	if len(t.waiting) == 0 {
		t.waiting = nil
	}
	t.respondedMs = nowMs
	t.latency.note(ms, 1)
	s.stats.latency.noteMs(ms, 1)
	s.meters.updates.note(1000*ms, 1)
	return bytes
}

// Status is what a server reports about itself.
type Status struct {
	Role
	RoleTime         time.Duration // since the role began
	ID               quorum.ID
	Phase            string // of Zab, as "following - broadcast"; "" for a standalone server
	Elections        int64  // decided since the start
	Participants     int    // in the configuration in force
	Learners         []zab.Learner
	Master           quorum.ID // of an observer: where it gets its history, from the leader or an observer master
	HasMaster        bool
	PendingSyncs     int
	Committed        zk.Zxid // by this leader; on other servers the same as Last
	LeaderSilent     time.Duration
	SteppedMs        int64 // time of the last step, by the clock: Learners and LeaderSilent are relative to it
	ProposalBytes    Sizes // of this leader
	Ensemble         *ensemble.Config
	Digest           uint64 // of the tree at Last
	Last             zk.Zxid
	Latency          Latency
	Received, Sent   int64
	Connections      int
	Outstanding      int64
	Uptime           time.Duration
	Znodes           int // the root counts once
	Ephemerals       int
	TextBytes        int64
	Sessions         int
	LocalSessions    int
	Watches          watch.Counts
	Counts           replica.Counts
	Rejected         int64 // connections beyond the limits
	Connects         int64 // handshakes
	AuthFailed       int64
	HandshakesFailed int64
	Refusals         Refusals // refused by the other limits
	DiskFull         bool
	PortsFailed      []string // addresses on which it should listen but cannot, each with the reason
	SnapshotsFailed  int64
	SnapshotLast     zk.Zxid
	SnapshotAt       time.Time // when that one was complete; zero before the first of this process
	Syncs            int64
	SyncAvg, SyncMax time.Duration
	Recovery         Recovery
	Audit            audit.Report // of the audit log; zero if none is written
	Backups          BackupReport
	Traces           TraceReport
	Ended            bool // the loop has ended, so the fields that it owns are missing
}

// Status reports everything at once. What the loop owns is available only while Run is running:
// until then Status waits.
func (s *Server) Status() Status {
	st := Status{
		ID: s.cfg.ID, Latency: s.stats.latency.report(), Received: s.stats.received.Load(),
		Outstanding: s.inFlight.Load(),
		Uptime:      time.Duration(s.monoMs()-s.startMs) * time.Millisecond,
		Rejected:    s.conns.rejected.Load(), Connects: s.stats.connects.Load(), AuthFailed: s.stats.authFailed.Load(), HandshakesFailed: s.stats.handshakes.Count(),
		DiskFull: s.diskFull.Load(), SnapshotsFailed: s.snaps.failed.Load(),
		PortsFailed: s.portsFailed(), Refusals: s.refusalsReport(), SnapshotLast: zk.Zxid(s.snaps.last.Load()), SnapshotAt: s.snaps.at(), Recovery: s.recovery,
	}
	if s.audit != nil {
		st.Audit = s.audit.Report()
	}
	if s.cfg.Backups != nil {
		st.Backups = s.cfg.Backups()
	}
	if s.cfg.Trace.Report != nil {
		st.Traces = s.cfg.Trace.Report()
	}
	st.Sent, st.Connections = s.sent()
	st.Syncs, st.SyncAvg, st.SyncMax = s.disk.sync.report()
	st.Ended = !s.inspect(func(r *replica.Replica) {
		t := r.Tree()
		st.Last, st.Znodes, st.Ephemerals, st.TextBytes = t.LastZxid(), t.Count(), t.EphemeralCount(), t.TextBytes()
		st.Sessions, st.Watches, st.Counts = r.Sessions().Count(), r.Watches().Counts(), r.Counts()
		st.Digest, st.LocalSessions = t.Digest().Value, r.Locals().Count()
		st.place(r)
	})
	st.Role, st.RoleTime = s.role()
	st.ProposalBytes = s.place.proposals.report()
	return st
}

// sent returns how many packets were sent to clients, and how many clients there are.
func (s *Server) sent() (packets int64, conns int) {
	s.conns.ending.RLock()
	defer s.conns.ending.RUnlock()
	packets = s.stats.sentGone.Load()
	for _, c := range s.conns.all() {
		c.out.mu.Lock()
		packets += c.stats.sent
		c.out.mu.Unlock()
		conns++
	}
	return packets, conns
}

// place fills in the server's role among the others.
func (st *Status) place(r *replica.Replica) {
	p := r.Peer()
	st.Elections, st.Learners, st.PendingSyncs = st.Counts.Elections, p.Learners(), p.PendingSyncs()
	st.SteppedMs = p.NowMs()
	if id, ok := p.Master(); ok && p.State() == zab.Observing {
		st.Master, st.HasMaster = id, true
	}
	st.Committed, st.LeaderSilent = p.Committed(), time.Duration(p.LeaderSilentMs())*time.Millisecond
	if st.Ensemble = r.Config(); st.Ensemble == nil {
		st.Participants = 1
		return
	}
	st.Participants = len(st.Ensemble.Participants())
	st.Phase = p.State().String()
	if p.Phase() != zab.Election {
		st.Phase += " - " + p.Phase().String()
	}
}

// Synced counts a leader's learners that it serves: followers with a vote, observers, and
// followers without a vote.
func (st *Status) Synced() (followers, observers, others int) {
	for _, l := range st.Learners {
		switch {
		case l.Stage != zab.LearnerServing:
		case l.Observer:
			observers++
		case st.Ensemble.Participants().Has(l.Server):
			followers++
		default:
			others++
		}
	}
	return followers, observers, others
}

// Lag returns how many committed transactions a follower has not acknowledged. One that is an
// epoch behind lags by all transactions of this epoch.
func (st *Status) Lag(l *zab.Learner) int64 {
	acked := l.Acked
	if acked.Epoch() != st.Committed.Epoch() {
		acked = zk.MakeZxid(st.Committed.Epoch(), 0)
	}
	return max(0, int64(st.Committed-acked))
}

func (t *syncStats) report() (count int64, avg, max time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count > 0 {
		avg = t.total / time.Duration(t.count)
	}
	return t.count, avg, t.max
}

// ResetStats resets the totals, but not the figures of connections.
func (s *Server) ResetStats() {
	s.stats.received.Store(0)
	s.stats.latency.reset()
	s.place.proposals.reset()
	s.resetReplies()
	s.conns.ending.Lock()
	defer s.conns.ending.Unlock()
	sent := int64(0)
	for _, c := range s.conns.all() {
		c.out.mu.Lock()
		sent += c.stats.sent
		c.out.mu.Unlock()
	}
	s.stats.sentGone.Store(-sent)
}

// ResetConnStats resets the figures of all connections, but not the totals.
func (s *Server) ResetConnStats() {
	s.conns.ending.Lock()
	defer s.conns.ending.Unlock()
	for _, c := range s.conns.all() {
		c.out.mu.Lock()
		s.stats.sentGone.Add(c.stats.sent)
		c.stats = connStats{waiting: c.stats.waiting, lastXid: -1, lastZxid: zk.NoZxid, lastOp: zk.OpError, hasOp: true, respondedMs: -1}
		c.out.mu.Unlock()
	}
}

// Conn is what is known about one connection.
type Conn struct {
	ID             session.ConnID
	Remote         netip.AddrPort
	Secure         bool         // on a port that uses TLS
	Session        zk.SessionID // 0 before the handshake
	Queued         int          // requests that the loop has
	Received, Sent int64
	LastOp         zk.Op
	HasOp          bool
	Since          time.Duration // how long it has existed
	TimeoutMs      int32
	LastXid        zk.Xid
	LastZxid       zk.Zxid
	Responded      time.Duration // since the last reply; negative: none since a reset
	LatencyMs      struct{ Last, Min, Avg, Max int64 }
}

// Conns lists the connections, oldest first.
func (s *Server) Conns() []Conn {
	nowMs := s.monoMs()
	var out []Conn
	for _, c := range s.conns.all() {
		c.out.mu.Lock()
		t := c.stats
		c.out.mu.Unlock()
		n := Conn{
			ID: c.id, Remote: c.remote, Session: zk.SessionID(c.sessionID.Load()), Queued: int(c.inFlight.Load()),
			Received: t.received, Sent: t.sent, LastOp: t.lastOp, HasOp: t.hasOp, TimeoutMs: c.timeoutMs.Load(),
			Since: time.Duration(nowMs-c.sinceMs) * time.Millisecond, LastXid: t.lastXid, LastZxid: t.lastZxid,
			Responded: time.Duration(nowMs-t.respondedMs) * time.Millisecond,
		}
		if t.respondedMs < 0 {
			n.Responded = -1
		}
		_, n.Secure = c.socket.(Prover)
		n.LatencyMs.Last, n.LatencyMs.Min, n.LatencyMs.Max = t.latency.last, t.latency.min, t.latency.max
		if t.latency.count > 0 {
			n.LatencyMs.Avg = t.latency.total / t.latency.count
		}
		out = append(out, n)
	}
	return out
}

// Dump is the state of sessions and their ephemerals.
type Dump struct {
	NowMs      int64 // of the clock that the buckets refer to
	Buckets    []session.Bucket
	Sessions   []session.Lease // all sessions by id, with their timeouts
	Local      []session.Bucket
	Ephemerals map[zk.SessionID][]string
	Left       int // how many ephemerals are left out
}

// Dump lists sessions by the time at which they expire, and their ephemerals. Like a report of
// watches it has not much more than watch.ReportBytesMax bytes of paths, plus 16 for each.
func (s *Server) Dump() Dump { return s.dump(watch.ReportBytesMax) }

func (s *Server) dump(bytesMax int) Dump {
	d := Dump{NowMs: s.monoMs(), Ephemerals: map[zk.SessionID][]string{}}
	s.inspect(func(r *replica.Replica) {
		d.Buckets, d.Sessions, d.Local = r.Sessions().Buckets(), r.Sessions().Leases(), r.Locals().Buckets()
	})
	// There may be millions of paths: the loop does not wait for them, and no writer waits for
	// all of them.
	t := s.replica.Tree()
	t.RLock()
	owners := t.EphemeralOwners()
	t.RUnlock()
	for _, id := range owners {
		t.RLock()
		if bytesMax < 0 {
			d.Left += t.EphemeralsOf(id)
			t.RUnlock()
			continue
		}
		paths := t.Ephemerals(id, "")
		t.RUnlock()
		for _, path := range paths {
			bytesMax -= len(path) + 16
		}
		if len(paths) > 0 {
			d.Ephemerals[id] = paths
		}
	}
	return d
}

// Leads reports whether this server leads an established epoch and serves.
func (s *Server) Leads() bool { return s.leads.Load() }

// Serves reports whether clients are served.
func (s *Server) Serves() bool { return s.serves.Load() }

// Digest returns the digest of the tree, and the transaction that it belongs to.
func (s *Server) Digest() (zk.Zxid, uint64) {
	t := s.replica.Tree()
	t.RLock()
	defer t.RUnlock()
	return t.LastZxid(), t.Digest().Value
}

// Digests returns the past digests of the tree that are kept, the last one at the end.
func (s *Server) Digests() []tree.PastDigest {
	t := s.replica.Tree()
	t.RLock()
	defer t.RUnlock()
	all := slices.Clone(t.PastDigests())
	if n := len(all); n == 0 || all[n-1].Zxid != t.LastZxid() {
		all = append(all, tree.PastDigest{Zxid: t.LastZxid(), Value: t.Digest().Value})
	}
	return all
}

// Watches returns the watch table, for reports.
func (s *Server) Watches() *watch.Table { return s.replica.Watches() }

// SessionOf returns the session of each connection.
func (s *Server) SessionOf() map[session.ConnID]zk.SessionID {
	out := map[session.ConnID]zk.SessionID{}
	for _, c := range s.conns.all() {
		out[c.id] = zk.SessionID(c.sessionID.Load())
	}
	return out
}

// Config returns what the server was started with.
func (s *Server) Config() Config { return s.cfg }

// SnapDir returns the directory of the snapshots.
func (s *Server) SnapDir() string { return s.disk.data.Store().SnapDir() }

// LogDir returns the directory of the transaction log.
func (s *Server) LogDir() string { return s.disk.data.Store().LogDir() }

// DirBytes returns the total size of the files in a directory.
func (s *Server) DirBytes(dir string) int64 { return dirBytes(s.cfg.FS, dir) }

func dirBytes(fsys vfs.FS, dir string) int64 {
	names, err := fsys.List(dir)
	if err != nil {
		return 0
	}
	total := int64(0)
	for _, name := range names {
		if info, err := fsys.Stat(dir + "/" + name); err == nil {
			total += info.Size
		}
	}
	return total
}
