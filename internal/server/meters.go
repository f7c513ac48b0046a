package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/tally"
)

// meters are what only a scrape of the metrics reads. They count from the start, and no reset
// affects them.
type meters struct {
	reads, updates, snapshots, gaps, leaderGaps distribution
	bytesReceived, bytesReplied, bytesEvents    atomic.Int64

	elections, followerSyncs, observerSyncs distribution // in milliseconds
	diffsUnderWay, snapsUnderWay            distribution
	ackCreations                            distribution // in milliseconds
	deficits, turns                         distribution
	diffs, snaps                            atomic.Int64 // learners that were synchronized in this way
	plainRemote, plainLocal                 atomic.Int64 // connections without a certificate
	otherEnsemble, ourEnsemble, anyEnsemble atomic.Int64 // what clients said about the ensemble
	dropped, resumed, expired               atomic.Int64 // connections of clients
	staleRequests, staleReplies             atomic.Int64
	repliesMu                               sync.Mutex
	replies                                 replySizes // of connections that have ended; guarded by repliesMu
	spaces                                  namespaces

	served bool     // clients have been served before; of the loop
	idleMs int64    // since when they are not served; of the loop
	way    progress // of the loop
}

// Meters are a server's totals since its start.
type Meters struct {
	Reads       tally.Distribution // of requests that are answered from the tree at once, in microseconds
	Updates     tally.Distribution // of requests that went to the loop, such as writes and syncs, in microseconds
	SyncTimes   tally.Distribution // of the log, in microseconds
	Batches     tally.Distribution // records in each sync
	Snapshots   tally.Distribution // time to write one, in microseconds
	Unavailable tally.Distribution // from when no client was served until clients were served again, in microseconds
	LeaderGaps  tally.Distribution // those after which this server led

	BytesReceived int64 // of requests, including their length prefixes
	BytesReplied  int64
	BytesEvents   int64 // of watch events

	ElectionTimes                tally.Distribution // from looking to a leader, in milliseconds
	FollowerSyncs, ObserverSyncs tally.Distribution // from the leader's history to service, in milliseconds
	Diffs, Snaps                 int64              // learners that this leader has synchronized in this way; TRUNC counts as DIFF
	DiffsUnderWay, SnapsUnderWay tally.Distribution // how many were under way when one began or ended

	Proposals, Commits int64                            // received from a leader with which this server is synchronized
	ProposalDelays     tally.Distribution               // from the decision to the arrival, in milliseconds by both wall clocks
	AckCreations       tally.Distribution               // from the decision until the record is durable here, likewise
	AckDelays          map[quorum.ID]tally.Distribution // from the proposal to the follower's ack, in milliseconds

	Deficits                                tally.Distribution // connection tokens that were in use when a client connected
	Turns                                   tally.Distribution // waits for a turn if a throttle bounds requests, in milliseconds
	Handshaking                             int64              // connections that are shaking hands for TLS now
	PlainRemote, PlainLocal                 int64              // connections so far that have proved no certificate: from other hosts, from this one
	OurEnsemble, OtherEnsemble, AnyEnsemble int64              // clients that named this ensemble, another one, or none
	Dropped                                 int64              // connections that ended before their sessions were closed
	Resumed                                 int64              // handshakes of clients that already have a session
	Expired                                 int64              // connections that did not have a session in time
	StaleRequests, StaleReplies             int64
	ReplyBytes                              Sizes // of the last, the shortest and the longest reply since the start or a reset

	Tallies replica.Tallies
	ReadBy  map[string]tally.Named // replies to reads that were answered at once, and their bytes, by the first name of the path
	Quotas  map[string]Quota
}

// Quota is the total of the limits and of the usages of all limited paths in a namespace; a
// limit of -1 is none.
type Quota struct{ CountMax, BytesMax, Count, Bytes int64 }

// Meters returns the totals. Like Status it waits until Run is running.
func (s *Server) Meters() Meters {
	m := &s.meters
	out := Meters{
		Reads: m.reads.report(), Updates: m.updates.report(), Snapshots: m.snapshots.report(),
		SyncTimes: s.disk.sync.times.report(), Batches: s.disk.sync.batches.report(),
		Unavailable: m.gaps.report(), LeaderGaps: m.leaderGaps.report(),
		BytesReceived: m.bytesReceived.Load(), BytesReplied: m.bytesReplied.Load(), BytesEvents: m.bytesEvents.Load(),
		ElectionTimes: m.elections.report(), FollowerSyncs: m.followerSyncs.report(), ObserverSyncs: m.observerSyncs.report(),
		Diffs: m.diffs.Load(), Snaps: m.snaps.Load(), DiffsUnderWay: m.diffsUnderWay.report(), SnapsUnderWay: m.snapsUnderWay.report(),
		AckCreations: m.ackCreations.report(), Deficits: m.deficits.report(), Turns: m.turns.report(),
		Handshaking: s.handshakes.now(), PlainRemote: m.plainRemote.Load(), PlainLocal: m.plainLocal.Load(),
		OurEnsemble: m.ourEnsemble.Load(), OtherEnsemble: m.otherEnsemble.Load(), AnyEnsemble: m.anyEnsemble.Load(),
		Dropped: m.dropped.Load(), Resumed: m.resumed.Load(), Expired: m.expired.Load(),
		StaleRequests: m.staleRequests.Load(), StaleReplies: m.staleReplies.Load(),
	}
	s.received.report(&out)
	s.reportConns(&out)
	s.inspect(func(r *replica.Replica) {
		out.Tallies = r.Tallies().Clone()
		out.Quotas = quotas(r.Tree())
	})
	return out
}

// Times returns the times of requests, as in Meters, for a report that needs nothing else.
func (s *Server) Times() (reads, updates tally.Distribution) {
	return s.meters.reads.report(), s.meters.updates.report()
}

// noteRole measures how long clients were not served. The time before the first role is the
// start, and is not counted. The loop calls it.
func (m *meters) noteRole(before, now Mode, nowMs int64) {
	serves := func(mode Mode) bool { return mode != ModeLooking && mode != ModeReadOnly }
	switch {
	case serves(before) && !serves(now):
		m.idleMs = nowMs
	case !serves(before) && serves(now):
		if m.served {
			m.gaps.note(1000*(nowMs-m.idleMs), 1)
			if now == ModeLeader {
				m.leaderGaps.note(1000*(nowMs-m.idleMs), 1)
			}
		}
		m.served = true
	}
}

// distribution gathers a tally.Distribution without allocating memory.
type distribution struct {
	mu  sync.Mutex
	now tally.Distribution
}

// note counts the number v n times.
func (d *distribution) note(v int64, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.Note(v, n)
}

// run gathers numbers that are mostly equal to the one before, so that a distribution is locked
// once for many numbers.
type run struct {
	of *distribution
	v  int64
	n  int
}

func (r *run) note(v int64) {
	if v != r.v {
		r.end()
		r.v = v
	}
	r.n++
}

// end counts what has gathered.
func (r *run) end() {
	if r.n > 0 {
		r.of.note(r.v, r.n)
		r.n = 0
	}
}

func (d *distribution) noteTime(t time.Duration, n int) { d.note(t.Microseconds(), n) }

func (d *distribution) report() tally.Distribution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}
