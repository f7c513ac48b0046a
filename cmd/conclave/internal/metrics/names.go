package metrics

import (
	"strconv"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/prometheus/client_golang/prometheus"
)

// kind is the kind of a metric in ZooKeeper 3.9.5.
type kind string

const (
	gauge    kind = "gauge"
	counter  kind = "counter"
	basic    kind = "summary"                // with the median
	advanced kind = "summary with quantiles" // with those of 0.5, 0.9 and 0.99
	set      kind = "set"                    // one metric for each name of something
)

func (k kind) value() prometheus.ValueType {
	if k == counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// name is a row of the table: a metric that is served, if value, spread or of is set, or else the
// reason why not.
type name struct {
	name string
	kind kind
	text string // what it tells, or why it is not served

	value  func(*sample) (v float64, there bool)
	spread func(*sample) *tally.Distribution
	unit   float64 // how many units of the distribution make one of the metric's
	of     func(*sample) []labelled
}

// labelled is one metric of a set: the value of a gauge or counter is in sum; spread is nil
// for a summary without quantiles.
type labelled struct {
	key        string
	count, sum int64
	spread     *tally.Distribution
}

// summaries are the sets of summaries, and counted the sets of counters; all other sets are gauges.
var (
	summaries = map[string]bool{"write_per_namespace": true, "read_per_namespace": true, "ack_latency": true}
	counted   = map[string]bool{"quota_exceeded_error_per_namespace": true}
)

func (n *name) served() bool { return n.value != nil || n.spread != nil || n.of != nil }

func (n *name) quantiles() []float64 {
	if n.kind == advanced || n.kind == set {
		return []float64{0.5, 0.9, 0.99}
	}
	return []float64{0.5}
}

// Why a name is not served.
const (
	whyPool    = "no meaning: requests pass through one loop in batches, and not through queues with threads of their own"
	whyCache   = "no meaning: there is no cache of replies"
	whyDead    = "no meaning: a watch goes with its connection at once"
	whyMasters = "no meaning: what an observer master hands on leaves in the step that delivers it"
	whyAdmin   = "no meaning: the admin port has no restore"
	whyJava    = "no meaning: there is no Java process; `go_gc_duration_seconds` tells of pauses"
	whyEnds    = "no meaning: such an error ends the server"
	whyLoyal   = "no meaning: a leader that waits for a quorum gives up after initLimit, whatever the others vote"
	whyClose   = "no meaning: nothing waits for a socket between servers to close"
)

// Units of distributions.
const (
	ms  = 1000 // that many microseconds
	one = 1
)

func number(f func(*sample) float64) func(*sample) (float64, bool) {
	return func(s *sample) (float64, bool) { return f(s), true }
}

// leading restricts f to leaders, as in ZooKeeper.
func leading(f func(*sample) float64) func(*sample) (float64, bool) {
	return func(s *sample) (float64, bool) {
		if s.Mode != server.ModeLeader {
			return 0, false
		}
		return f(s), true
	}
}

// single is the distribution of something that happens once, at the start.
func single(v int64) *tally.Distribution {
	d := &tally.Distribution{Count: 1, Sum: v}
	d.Buckets[tally.BucketOf(v)] = 1
	return d
}

// both adds two distributions.
func both(a, b *tally.Distribution) *tally.Distribution {
	sum := *a
	sum.Add(b)
	return &sum
}

// quorumAck is only for servers of an ensemble: a server alone has no quorum to wait for.
func quorumAck(s *sample) *tally.Distribution {
	if s.Ensemble == nil {
		return &tally.Distribution{}
	}
	return &s.Tallies.Decided
}

func byName(all map[string]tally.Named) []labelled {
	out := make([]labelled, 0, len(all))
	for key, n := range all {
		out = append(out, labelled{key: key, count: n.Count, sum: n.Sum})
	}
	return out
}

func byQuota(s *sample, of func(server.Quota) int64) []labelled {
	out := make([]labelled, 0, len(s.Quotas))
	for key, q := range s.Quotas {
		out = append(out, labelled{key: key, sum: of(q)})
	}
	return out
}

func byServer(all map[quorum.ID]tally.Distribution) []labelled {
	out := make([]labelled, 0, len(all))
	for id, d := range all {
		out = append(out, labelled{key: strconv.FormatInt(int64(id), 10), spread: &d})
	}
	return out
}

// synced is one of the three counts of a leader.
func synced(which int) func(*sample) (float64, bool) {
	return leading(func(s *sample) float64 {
		followers, observers, others := s.Synced()
		return float64([]int{followers, observers, others}[which])
	})
}

// names has every name of ZooKeeper 3.9.5: metrics-M1.
var names = []name{
	{name: "avg_latency", kind: gauge, text: "mean time of a request, ms", value: number(func(s *sample) float64 { return float64(s.Latency.AvgMs) })},
	{name: "min_latency", kind: gauge, text: "shortest time of a request, ms", value: number(func(s *sample) float64 { return float64(s.Latency.MinMs) })},
	{name: "max_latency", kind: gauge, text: "longest time of a request, ms", value: number(func(s *sample) float64 { return float64(s.Latency.MaxMs) })},
	{name: "packets_received", kind: gauge, text: "requests", value: number(func(s *sample) float64 { return float64(s.Received) })},
	{name: "packets_sent", kind: gauge, text: "replies and events", value: number(func(s *sample) float64 { return float64(s.Sent) })},
	{name: "num_alive_connections", kind: gauge, text: "connections of clients", value: number(func(s *sample) float64 { return float64(s.Connections) })},
	{name: "outstanding_requests", kind: gauge, text: "requests that the loop has not answered", value: number(func(s *sample) float64 { return float64(s.Outstanding) })},
	{name: "uptime", kind: gauge, text: "ms since the start", value: number(func(s *sample) float64 { return float64(s.Uptime.Milliseconds()) })},
	{name: "znode_count", kind: gauge, text: "znodes; the root counts twice, as in ZooKeeper", value: number(func(s *sample) float64 { return float64(s.Znodes + 1) })},
	{name: "watch_count", kind: gauge, text: "watches", value: number(func(s *sample) float64 { return float64(s.Watches.All) })},
	{name: "ephemerals_count", kind: gauge, text: "ephemeral znodes", value: number(func(s *sample) float64 { return float64(s.Ephemerals) })},
	{name: "approximate_data_size", kind: gauge, text: "bytes of paths and data", value: number(func(s *sample) float64 { return float64(s.TextBytes) })},
	{name: "global_sessions", kind: gauge, text: "sessions of the ensemble", value: number(func(s *sample) float64 { return float64(s.Sessions) })},
	{name: "local_sessions", kind: gauge, text: "local sessions", value: number(func(s *sample) float64 { return float64(s.LocalSessions) })},
	{name: "open_file_descriptor_count", kind: gauge, text: "open file descriptors", value: number(func(s *sample) float64 { return float64(s.opened) })},
	{name: "max_file_descriptor_count", kind: gauge, text: "limit of open file descriptors", value: number(func(s *sample) float64 { return float64(s.limit) })},
	{name: "auth_failed_count", kind: gauge, text: "authentications that failed", value: number(func(s *sample) float64 { return float64(s.AuthFailed) })},
	{name: "quorum_size", kind: gauge, text: "participants of the configuration, on a server that leads, follows or observes", value: func(s *sample) (float64, bool) {
		return float64(s.Participants), s.Mode == server.ModeLeader || s.Mode == server.ModeFollower || s.Mode == server.ModeObserver
	}},
	{name: "learners", kind: gauge, text: "learners linked to this leader", value: leading(func(s *sample) float64 { return float64(len(s.Learners)) })},
	{name: "synced_followers", kind: gauge, text: "followers with a vote that are served", value: synced(0)},
	{name: "synced_non_voting_followers", kind: gauge, text: "followers without a vote that are served", value: synced(2)},
	{name: "synced_observers", kind: gauge, text: "observers that are served", value: func(s *sample) (float64, bool) {
		_, observers, _ := s.Synced() // on a follower, the observers of an observer master
		return float64(observers), s.Mode == server.ModeLeader || s.Mode == server.ModeFollower
	}},
	{name: "pending_syncs", kind: gauge, text: "syncs that this leader has not answered", value: leading(func(s *sample) float64 { return float64(s.PendingSyncs) })},
	{name: "leader_uptime", kind: gauge, text: "how long this server has led, ms", value: leading(func(s *sample) float64 { return float64(s.RoleTime.Milliseconds()) })},
	{name: "last_proposal_size", kind: gauge, text: "bytes of the last proposal", value: leading(func(s *sample) float64 { return float64(s.ProposalBytes.Last) })},
	{name: "max_proposal_size", kind: gauge, text: "bytes of the longest proposal", value: leading(func(s *sample) float64 { return float64(s.ProposalBytes.Max) })},
	{name: "min_proposal_size", kind: gauge, text: "bytes of the shortest proposal", value: leading(func(s *sample) float64 { return float64(s.ProposalBytes.Min) })},
	{name: "connection_drop_probability", kind: gauge, text: "the share of new connections that the throttle currently refuses", value: number(func(s *sample) float64 { return float64(s.Refusals.Chance) })},
	{name: "last_client_response_size", kind: gauge, text: "bytes of the last reply to a request, with its length; -1 before the first", value: number(func(s *sample) float64 { return float64(s.ReplyBytes.Last) })},
	{name: "max_client_response_size", kind: gauge, text: "bytes of the longest reply to a request", value: number(func(s *sample) float64 { return float64(s.ReplyBytes.Max) })},
	{name: "min_client_response_size", kind: gauge, text: "bytes of the shortest reply to a request", value: number(func(s *sample) float64 { return float64(s.ReplyBytes.Min) })},
	{name: "outstanding_tls_handshake", kind: gauge, text: "TLS handshakes in progress", value: number(func(s *sample) float64 { return float64(s.Handshaking) })},
	{name: "non_mtls_remote_conn_count", kind: gauge, text: "connections so far from other hosts whose clients proved no certificate", value: number(func(s *sample) float64 { return float64(s.PlainRemote) })},
	{name: "non_mtls_local_conn_count", kind: gauge, text: "connections so far from this host whose clients proved no certificate", value: number(func(s *sample) float64 { return float64(s.PlainLocal) })},
	{name: "quota_count_limit_per_namespace", kind: set, text: "znodes that the paths with a quota may have, by the first name of the path; -1 is no limit", of: func(s *sample) []labelled { return byQuota(s, func(q server.Quota) int64 { return q.CountMax }) }},
	{name: "quota_bytes_limit_per_namespace", kind: set, text: "bytes that the paths with a quota may have", of: func(s *sample) []labelled { return byQuota(s, func(q server.Quota) int64 { return q.BytesMax }) }},
	{name: "quota_count_usage_per_namespace", kind: set, text: "znodes that the paths with a quota have", of: func(s *sample) []labelled { return byQuota(s, func(q server.Quota) int64 { return q.Count }) }},
	{name: "quota_bytes_usage_per_namespace", kind: set, text: "bytes that the paths with a quota have", of: func(s *sample) []labelled { return byQuota(s, func(q server.Quota) int64 { return q.Bytes }) }},
	{name: "fsynctime", kind: basic, text: "syncs of the log, ms", spread: func(s *sample) *tally.Distribution { return &s.SyncTimes }, unit: ms},
	{name: "snapshottime", kind: basic, text: "snapshots written, ms", spread: func(s *sample) *tally.Distribution { return &s.Snapshots }, unit: ms},
	{name: "snapshot_error_count", kind: counter, text: "snapshots that could not be written", value: number(func(s *sample) float64 { return float64(s.SnapshotsFailed) })},
	{name: "snapshot_rate_limited_count", kind: counter, text: "requests to the admin port for a snapshot that were refused because they came too soon", value: number(func(s *sample) float64 { return float64(s.snapshotsLimited) })},
	{name: "restore_time", kind: basic, text: whyAdmin},
	{name: "restore_error_count", kind: counter, text: whyAdmin},
	{name: "restore_rate_limited_count", kind: counter, text: whyAdmin},
	{name: "dbinittime", kind: basic, text: "recovery from the files at the start, ms", spread: func(s *sample) *tally.Distribution { return single(s.Recovery.Time.Microseconds()) }, unit: ms},
	{name: "readlatency", kind: advanced, text: "reads answered from the tree, ms", spread: func(s *sample) *tally.Distribution { return &s.Reads }, unit: ms},
	{name: "updatelatency", kind: advanced, text: "writes and syncs of this server's clients, in whole ms", spread: func(s *sample) *tally.Distribution { return &s.Updates }, unit: ms},
	{name: "propagation_latency", kind: advanced, text: "from the decision of a transaction to its delivery here, ms of the wall clocks of both servers", spread: func(s *sample) *tally.Distribution { return both(&s.Tallies.Decided, &s.Tallies.Followed) }, unit: one},
	{name: "follower_sync_time", kind: basic, text: "from the arrival of the leader's history until this follower served, ms", spread: func(s *sample) *tally.Distribution { return &s.FollowerSyncs }, unit: one},
	{name: "observer_sync_time", kind: basic, text: "from the arrival of the leader's history until this observer served, ms", spread: func(s *sample) *tally.Distribution { return &s.ObserverSyncs }, unit: one},
	{name: "election_time", kind: basic, text: "from when this server began to look for a leader until one was elected, ms", spread: func(s *sample) *tally.Distribution { return &s.ElectionTimes }, unit: one},
	{name: "looking_count", kind: counter, text: "elections decided", value: number(func(s *sample) float64 { return float64(s.Elections) })},
	{name: "diff_count", kind: counter, text: "learners to which this leader has sent what they lacked (DIFF, TRUNC)", value: number(func(s *sample) float64 { return float64(s.Diffs) })},
	{name: "snap_count", kind: counter, text: "learners to which this leader has sent a snapshot", value: number(func(s *sample) float64 { return float64(s.Snaps) })},
	{name: "commit_count", kind: counter, text: "transactions delivered", value: number(func(s *sample) float64 { return float64(s.Counts.Delivered) })},
	{name: "connection_request_count", kind: counter, text: "handshakes", value: number(func(s *sample) float64 { return float64(s.Connects) })},
	{name: "connection_token_deficit", kind: basic, text: "connection tokens in use when a client connected; 0 without a limit", spread: func(s *sample) *tally.Distribution { return &s.Deficits }, unit: one},
	{name: "connection_rejected", kind: counter, text: "connections beyond the limits", value: number(func(s *sample) float64 { return float64(s.Rejected) })},
	{name: "inflight_snap_count", kind: basic, text: "learners that were sent a snapshot and did not serve yet, when one more began or ended", spread: func(s *sample) *tally.Distribution { return &s.SnapsUnderWay }, unit: one},
	{name: "inflight_diff_count", kind: basic, text: "learners that were sent what they lacked and did not serve yet, when one more began or ended", spread: func(s *sample) *tally.Distribution { return &s.DiffsUnderWay }, unit: one},
	{name: "write_per_namespace", kind: set, text: "writes that were delivered, with the bytes of path and data, by the first name of the path", of: func(s *sample) []labelled { return byName(s.Tallies.Written.All()) }},
	{name: "read_per_namespace", kind: set, text: "reads that were answered at once, with the bytes of the replies, by the first name of the path; without multiRead", of: func(s *sample) []labelled { return byName(s.ReadBy) }},
	{name: "bytes_received_count", kind: counter, text: "bytes of requests", value: number(func(s *sample) float64 { return float64(s.BytesReceived) })},
	{name: "unrecoverable_error_count", kind: counter, text: whyEnds},
	{name: "node_created_watch_count", kind: basic, text: "clients that were told that a znode was created, where there was one", spread: func(s *sample) *tally.Distribution { return &s.Tallies.Created }, unit: one},
	{name: "node_deleted_watch_count", kind: basic, text: "clients that were told that a znode was deleted, where there was one", spread: func(s *sample) *tally.Distribution { return &s.Tallies.Deleted }, unit: one},
	{name: "node_changed_watch_count", kind: basic, text: "clients that were told that data changed, where there was one", spread: func(s *sample) *tally.Distribution { return &s.Tallies.Changed }, unit: one},
	{name: "node_children_watch_count", kind: basic, text: "clients that were told that children changed, where there was one", spread: func(s *sample) *tally.Distribution { return &s.Tallies.Children }, unit: one},
	{name: "add_dead_watcher_stall_time", kind: counter, text: whyDead},
	{name: "dead_watchers_queued", kind: counter, text: whyDead},
	{name: "dead_watchers_cleared", kind: counter, text: whyDead},
	{name: "dead_watchers_cleaner_latency", kind: advanced, text: whyDead},
	{name: "response_packet_cache_hits", kind: counter, text: whyCache},
	{name: "response_packet_cache_misses", kind: counter, text: whyCache},
	{name: "response_packet_get_children_cache_hits", kind: counter, text: whyCache},
	{name: "response_packet_get_children_cache_misses", kind: counter, text: whyCache},
	{name: "ensemble_auth_success", kind: counter, text: "clients that named this ensemble", value: number(func(s *sample) float64 { return float64(s.OurEnsemble) })},
	{name: "ensemble_auth_fail", kind: counter, text: "clients that named another ensemble, and were disconnected", value: number(func(s *sample) float64 { return float64(s.OtherEnsemble) })},
	{name: "ensemble_auth_skip", kind: counter, text: "clients that named none, or for which this server has no name to compare", value: number(func(s *sample) float64 { return float64(s.AnyEnsemble) })},
	{name: "prep_processor_queue_time_ms", kind: advanced, text: whyPool},
	{name: "prep_processor_queue_size", kind: basic, text: whyPool},
	{name: "prep_processor_request_queued", kind: counter, text: whyPool},
	{name: "outstanding_changes_queued", kind: counter, text: whyPool},
	{name: "outstanding_changes_removed", kind: counter, text: whyPool},
	{name: "prep_process_time", kind: basic, text: whyPool},
	{name: "proposal_process_time", kind: basic, text: whyPool},
	{name: "close_session_prep_time", kind: advanced, text: whyPool},
	{name: "revalidate_count", kind: counter, text: "sessions that learners have asked this leader about", value: number(func(s *sample) float64 { return float64(s.Counts.Revalidated) })},
	{name: "connection_drop_count", kind: counter, text: "connections that clients ended before their sessions, or lost", value: number(func(s *sample) float64 { return float64(s.Dropped) })},
	{name: "connection_revalidate_count", kind: counter, text: "handshakes of clients that have a session", value: number(func(s *sample) float64 { return float64(s.Resumed) })},
	{name: "sessionless_connections_expired", kind: counter, text: "connections that did not get a session in time", value: number(func(s *sample) float64 { return float64(s.Expired) })},
	{name: "stale_sessions_expired", kind: counter, text: "sessions that the leader has expired", value: number(func(s *sample) float64 { return float64(s.Counts.Expired) })},
	{name: "unavailable_time", kind: basic, text: "time in which no client could be served, ms", spread: func(s *sample) *tally.Distribution { return &s.Unavailable }, unit: ms},
	{name: "leader_unavailable_time", kind: basic, text: "time in which no client could be served, if this server led afterwards, ms", spread: func(s *sample) *tally.Distribution { return &s.LeaderGaps }, unit: ms},
	{name: "requests_in_session_queue", kind: basic, text: whyPool},
	{name: "pending_session_queue_size", kind: basic, text: whyPool},
	{name: "reads_after_write_in_session_queue", kind: basic, text: whyPool},
	{name: "reads_issued_from_session_queue", kind: basic, text: whyPool},
	{name: "session_queues_drained", kind: basic, text: whyPool},
	{name: "time_waiting_empty_pool_in_commit_processor_read_ms", kind: basic, text: whyPool},
	{name: "write_batch_time_in_commit_processor", kind: basic, text: whyPool},
	{name: "concurrent_request_processing_in_commit_processor", kind: basic, text: whyPool},
	{name: "read_commit_proc_req_queued", kind: basic, text: whyPool},
	{name: "write_commit_proc_req_queued", kind: basic, text: whyPool},
	{name: "commit_commit_proc_req_queued", kind: basic, text: whyPool},
	{name: "request_commit_queued", kind: counter, text: whyPool},
	{name: "read_commit_proc_issued", kind: basic, text: whyPool},
	{name: "write_commit_proc_issued", kind: basic, text: whyPool},
	{name: "throttled_ops", kind: counter, text: "requests refused because they had waited too long", value: number(func(s *sample) float64 { return float64(s.Refusals.Waited) })},
	{name: "read_commitproc_time_ms", kind: advanced, text: whyPool},
	{name: "write_commitproc_time_ms", kind: advanced, text: whyPool},
	{name: "local_write_committed_time_ms", kind: advanced, text: whyPool},
	{name: "server_write_committed_time_ms", kind: advanced, text: whyPool},
	{name: "commit_process_time", kind: basic, text: whyPool},
	{name: "om_proposal_process_time_ms", kind: advanced, text: whyMasters},
	{name: "om_commit_process_time_ms", kind: advanced, text: whyMasters},
	{name: "read_final_proc_time_ms", kind: advanced, text: whyPool},
	{name: "write_final_proc_time_ms", kind: advanced, text: whyPool},
	{name: "proposal_latency", kind: advanced, text: "from the decision to the arrival of the proposal on this follower, ms of the wall clocks of both servers", spread: func(s *sample) *tally.Distribution { return &s.ProposalDelays }, unit: one},
	{name: "proposal_ack_creation_latency", kind: advanced, text: "from the decision until the transaction is on this server's disk, ms of the wall clocks of both servers", spread: func(s *sample) *tally.Distribution { return &s.AckCreations }, unit: one},
	{name: "commit_propagation_latency", kind: advanced, text: "from the decision until this learner has the commit, which it delivers at once, ms of the wall clocks of both servers", spread: func(s *sample) *tally.Distribution { return &s.Tallies.Followed }, unit: one},
	{name: "learner_proposal_received_count", kind: counter, text: "proposals received from a leader with which this follower is in sync", value: number(func(s *sample) float64 { return float64(s.Proposals) })},
	{name: "learner_commit_received_count", kind: counter, text: "commits received from such a leader", value: number(func(s *sample) float64 { return float64(s.Commits) })},
	{name: "learner_handler_qp_size", kind: set, text: whyPool},
	{name: "learner_handler_qp_time_ms", kind: set, text: whyPool},
	{name: "startup_txns_loaded", kind: basic, text: "records of the log replayed at the start", spread: func(s *sample) *tally.Distribution { return single(int64(s.Recovery.Records)) }, unit: one},
	{name: "startup_txns_load_time", kind: basic, text: "replay of the log at the start, ms", spread: func(s *sample) *tally.Distribution { return single(s.Recovery.LogTime.Microseconds()) }, unit: ms},
	{name: "startup_snap_load_time", kind: basic, text: "loading of the snapshot at the start, ms", spread: func(s *sample) *tally.Distribution { return single(s.Recovery.SnapshotTime.Microseconds()) }, unit: ms},
	{name: "sync_processor_queue_and_flush_time_ms", kind: advanced, text: whyPool},
	{name: "sync_processor_queue_size", kind: basic, text: whyPool},
	{name: "sync_processor_request_queued", kind: counter, text: whyPool},
	{name: "sync_processor_queue_time_ms", kind: advanced, text: whyPool},
	{name: "sync_processor_queue_flush_time_ms", kind: advanced, text: whyPool},
	{name: "sync_process_time", kind: basic, text: whyPool},
	{name: "sync_processor_batch_size", kind: basic, text: "records of one sync of the log", spread: func(s *sample) *tally.Distribution { return &s.Batches }, unit: one},
	{name: "quorum_ack_latency", kind: advanced, text: "from the decision until a quorum has the transaction on disk, ms; on this server as leader", spread: quorumAck, unit: one},
	{name: "ack_latency", kind: set, text: "from the proposal to the ack of a follower, ms, for every eighth proposal of this leader, by the server's number", unit: one, of: func(s *sample) []labelled { return byServer(s.AckDelays) }},
	{name: "proposal_count", kind: counter, text: "proposals of this server as leader", value: number(func(s *sample) float64 { return float64(s.Counts.Proposed) })},
	{name: "quit_leading_due_to_disloyal_voter", kind: counter, text: whyLoyal},
	{name: "stale_requests", kind: counter, text: "requests carried out though nobody may wait for them any more (request_throttle_drop_stale=false)", value: number(func(s *sample) float64 { return float64(s.StaleRequests) })},
	{name: "stale_requests_dropped", kind: counter, text: "requests dropped because nobody waits for them any more", value: number(func(s *sample) float64 { return float64(s.Refusals.Stale) })},
	{name: "stale_replies", kind: counter, text: "answers whose client had gone", value: number(func(s *sample) float64 { return float64(s.StaleReplies + s.Counts.StaleReplies) })},
	{name: "request_throttle_queue_time_ms", kind: advanced, text: "how long requests waited for their turn, ms; none without a limit", spread: func(s *sample) *tally.Distribution { return &s.Turns }, unit: one},
	{name: "request_throttle_wait_count", kind: counter, text: "requests that waited for their turn", value: number(func(s *sample) float64 { return float64(s.Refusals.Waits) })},
	{name: "large_requests_rejected", kind: counter, text: "large requests refused", value: number(func(s *sample) float64 { return float64(s.Refusals.Large) })},
	{name: "netty_queued_buffer_capacity", kind: basic, text: whyJava},
	{name: "digest_mismatches_count", kind: counter, text: "digests of the tree that differed from the log's", value: number(func(s *sample) float64 { return float64(s.Counts.DigestMismatches) })},
	{name: "learner_request_processor_queue_size", kind: basic, text: whyPool},
	{name: "unsuccessful_handshake", kind: counter, text: "TLS handshakes that failed", value: number(func(s *sample) float64 { return float64(s.HandshakesFailed) })},
	{name: "insecure_admin_count", kind: counter, text: "connections without TLS on ports for operators that accept both", value: number(func(s *sample) float64 { return float64(s.plainAdmin) })},
	{name: "tls_handshake_exceeded", kind: counter, text: "connections beyond the limit of TLS handshakes in progress", value: number(func(s *sample) float64 { return float64(s.Refusals.Handshakes) })},
	{name: "cnxn_closed_without_zk_server_running", kind: counter, text: "connections closed because this server has no role", value: number(func(s *sample) float64 { return float64(s.Counts.Unserved) })},
	{name: "skip_learner_request_to_next_processor_count", kind: counter, text: whyPool},
	{name: "socket_closing_time", kind: basic, text: whyClose},
	{name: "response_bytes", kind: counter, text: "bytes of replies", value: number(func(s *sample) float64 { return float64(s.BytesReplied) })},
	{name: "watch_bytes", kind: counter, text: "bytes of watch events", value: number(func(s *sample) float64 { return float64(s.BytesEvents) })},
	{name: "jvm_pause_time_ms", kind: advanced, text: whyJava},
	{name: "requests_not_forwarded_to_commit_processor", kind: counter, text: whyPool},
	{name: "quota_exceeded_error_per_namespace", kind: set, text: "writes that this leader has refused for a hard quota, by the first name of the path", of: func(s *sample) []labelled { return byName(s.Tallies.OverQuota.All()) }},
}
