package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tally"
)

// mntr prints what a server measures, one key on each line.
func (c Commands) mntr(s *server.Server) string {
	var b strings.Builder
	for _, f := range c.figures(s) {
		fmt.Fprintf(&b, "zk_%s\t%v\n", f.Name, f.Value)
	}
	return b.String()
}

// decimal is a figure that need not be an integer.
type decimal float64

// String prints at least one and at most four decimal places.
func (d decimal) String() string {
	s := strings.TrimRight(fmt.Sprintf("%.4f", float64(d)), "0")
	if strings.HasSuffix(s, ".") {
		s += "0"
	}
	return s
}

// figures returns what a server measures. Figures of things that this server does not have are
// left out, as ZooKeeper leaves out gauges without a value.
func (c Commands) figures(s *server.Server) Fields {
	st := s.Status()
	open, limit := Descriptors()
	var fields Fields
	put := fields.put
	put("version", c.version())
	put("server_state", st.Mode)
	if st.Ensemble != nil {
		put("peer_state", st.Phase)
	}
	put("avg_latency", decimal(st.Latency.AvgMs))
	put("min_latency", st.Latency.MinMs)
	put("max_latency", st.Latency.MaxMs)
	put("packets_received", st.Received)
	put("packets_sent", st.Sent)
	put("num_alive_connections", st.Connections)
	put("outstanding_requests", st.Outstanding)
	put("uptime", st.Uptime.Milliseconds())
	put("znode_count", st.Znodes+1)
	put("watch_count", st.Watches.All)
	put("ephemerals_count", st.Ephemerals)
	put("approximate_data_size", st.TextBytes)
	put("global_sessions", st.Sessions)
	put("local_sessions", st.LocalSessions)
	put("open_file_descriptor_count", open)
	put("max_file_descriptor_count", limit)
	put("connection_rejected", st.Rejected)
	put("connection_request_count", st.Connects)
	put("auth_failed_count", st.AuthFailed)
	put("unsuccessful_handshake", st.HandshakesFailed)
	put("tls_handshake_exceeded", st.Refusals.Handshakes)
	put("connection_drop_probability", decimal(st.Refusals.Chance))
	put("request_throttle_wait_count", st.Refusals.Waits)
	put("throttled_ops", st.Refusals.Waited)
	put("stale_requests_dropped", st.Refusals.Stale)
	put("large_requests_rejected", st.Refusals.Large)
	put("requests_paced", st.Refusals.Paced)
	put("identity_connections_rejected", st.Refusals.Identities)
	put("watches_rejected", st.Refusals.Watches)
	put("digest_mismatches_count", st.Counts.DigestMismatches)
	put("stale_sessions_expired", st.Counts.Expired)
	reads, updates := s.Times()
	put("cnt_readlatency", reads.Count)
	put("cnt_updatelatency", updates.Count)
	put("read_micros", reads.Text())
	put("update_micros", updates.Text())
	put("commit_count", st.Counts.Delivered)
	put("proposal_count", st.Counts.Proposed)
	put("snapshot_error_count", st.SnapshotsFailed)
	put("avg_fsynctime", decimal(float64(st.SyncAvg.Microseconds())/1000))
	put("max_fsynctime", st.SyncMax.Milliseconds())
	put("cnt_fsynctime", st.Syncs)
	put("startup_txns_loaded", st.Recovery.Records)
	put("startup_time", st.Recovery.Time.Milliseconds())
	put("disk_full", oneIf(st.DiskFull))
	put("ports_failed", len(st.PortsFailed))
	if len(st.PortsFailed) > 0 {
		put("ports_failed_why", strings.Map(spaced, strings.Join(st.PortsFailed, "; ")))
	}
	put("audit_lines", st.Audit.Written)
	put("audit_lines_lost", st.Audit.Lost)
	if b := &st.Backups; b.On {
		put("backups_taken", b.Taken)
		put("backups_failed", b.Failed)
		put("backup_gaps", b.Gaps)
		if b.Due {
			put("backup_age", b.Age.Milliseconds())
		}
	}
	read, written := s.Namespaces()
	putNamespaces("read", read, put)
	putNamespaces("write", written, put)
	put("tree_digest", st.Digest)
	if st.Ensemble != nil {
		ensembleFigures(&st, put)
	}
	return fields
}

// namespacesTold is how many namespaces are reported, the busiest ones.
const namespacesTold = 100

// putNamespaces reports requests by the first name of their path, under ZooKeeper's keys. A
// name that would break the field or the line is left out.
func putNamespaces(of string, all map[string]tally.Named, put func(string, any)) {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(name string) bool {
		return strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	})
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].Count, all[a].Count), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), namespacesTold)] {
		put("cnt_"+name+"_"+of+"_per_namespace", all[name].Count)
		put("sum_"+name+"_"+of+"_per_namespace", all[name].Sum)
	}
}

// spaced keeps text from elsewhere within its line and its field.
func spaced(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// ensembleFigures adds the figures of a server that is not standalone: first those under
// ZooKeeper's names, then those that only Conclave has.
func ensembleFigures(st *server.Status, put func(key string, value any)) {
	put("quorum_size", st.Participants)
	put("looking_count", st.Elections)
	switch st.Mode {
	case server.ModeLeader:
		leaderFigures(st, put)
	case server.ModeFollower:
		_, observers, _ := st.Synced() // observers of an observer master
		put("synced_observers", observers)
	case server.ModeObserver:
		if st.HasMaster {
			put("observer_master_id", st.Master)
		}
	}
	put("server_id", st.ID)
	put("leader_id", st.Leader)
	put("epoch", st.Epoch)
	put("role_uptime", st.RoleTime.Milliseconds())
	if st.Mode != server.ModeLeader {
		put("leader_heard_ms", st.LeaderSilent.Milliseconds())
	}
	for _, l := range st.Learners {
		put(fmt.Sprintf("learner_%d_in_sync", l.Server), oneIf(l.InSync))
		if !l.Observer {
			put(fmt.Sprintf("learner_%d_lag", l.Server), st.Lag(&l))
		}
		put(fmt.Sprintf("learner_%d_heard_ms", l.Server), l.SilentMs)
	}
}

func leaderFigures(st *server.Status, put func(key string, value any)) {
	followers, observers, others := st.Synced()
	put("learners", len(st.Learners))
	put("synced_followers", followers)
	put("synced_non_voting_followers", others)
	put("synced_observers", observers)
	put("pending_syncs", st.PendingSyncs)
	put("leader_uptime", st.RoleTime.Milliseconds())
	put("last_proposal_size", st.ProposalBytes.Last)
	put("min_proposal_size", st.ProposalBytes.Min)
	put("max_proposal_size", st.ProposalBytes.Max)
}

// oneIf prints a condition as a number, because monitoring agents expect numbers only.
func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
