package admin

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/server"
)

// mntr prints what a server measures, one key a line. Keys of things that this
// server does not have are left out, as ZooKeeper leaves out gauges without a
// value.
func (w Words) mntr(s *server.Server) string {
	st := s.Status()
	open, limit := descriptors()
	var b strings.Builder
	put := func(key string, value any) { fmt.Fprintf(&b, "zk_%s\t%v\n", key, value) }
	put("version", w.version())
	put("server_state", st.Mode)
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
	put("local_sessions", 0)
	put("open_file_descriptor_count", open)
	put("max_file_descriptor_count", limit)
	put("connection_rejected", st.Rejected)
	put("connection_request_count", st.Connects)
	put("auth_failed_count", st.AuthFailed)
	put("digest_mismatches_count", st.Counts.DigestMismatches)
	put("stale_sessions_expired", st.Counts.Expired)
	put("commit_count", st.Counts.Delivered)
	put("proposal_count", st.Counts.Proposed)
	put("snapshot_error_count", st.SnapshotsFailed)
	put("avg_fsynctime", decimal(float64(st.SyncAvg.Microseconds())/1000))
	put("max_fsynctime", st.SyncMax.Milliseconds())
	put("cnt_fsynctime", st.Syncs)
	put("startup_txns_loaded", st.Recovery.Records)
	put("startup_time", st.Recovery.Time.Milliseconds())
	put("disk_full", oneIf(st.DiskFull))
	return b.String()
}

// oneIf prints a condition as agents want it: everything is a number to them.
func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
