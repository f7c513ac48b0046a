package metrics

import (
	"strconv"

	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/prometheus/client_golang/prometheus"
)

// An ownName is one of our own metrics: its name begins with conclave_, and times are in seconds.
type ownName struct {
	name, text, labels string
	desc               *prometheus.Desc
}

func declare(name, text string, labels ...string) *ownName {
	n := &ownName{name: "conclave_" + name, text: text}
	for _, l := range labels {
		n.labels += "`" + l + "` "
	}
	n.desc = prometheus.NewDesc(n.name, text, labels, nil)
	ownNames = append(ownNames, n)
	return n
}

// ownNames are all of them, in the order of the docs.
var ownNames []*ownName

var (
	ownInfo      = declare("server_info", "always 1; the labels say what the server is", "version", "mode", "id")
	ownServing   = declare("server_serving", "1 while clients are served, reading and writing")
	ownLeader    = declare("server_leader_id", "the leader that this server follows, or itself; 0 while looking")
	ownEpoch     = declare("server_epoch", "the established epoch; 0 while looking")
	ownRole      = declare("server_role_seconds", "seconds since the server took up its role")
	ownSilent    = declare("server_leader_silent_seconds", "seconds since the last message from the leader; not on a leader")
	ownDisk      = declare("server_disk_full", "1 while nothing can be written")
	ownClosed    = declare("server_ports_failed", "addresses on which the server should listen since a reconfig moved them, but cannot")
	ownReaped    = declare("server_reaped_total", "containers and znodes with a TTL that the leader has deleted")
	ownPaced     = declare("server_requests_paced_total", "requests refused because their client asks for more per second than conclave.*PerSecond allow")
	ownIdentity  = declare("server_identity_connections_rejected_total", "connections refused because their identity already has as many as conclave.identityConnectionsMax allows")
	ownUnwatched = declare("server_watches_rejected_total", "watches refused because there are already as many as conclave.sessionWatchesMax and similar keys allow")
	ownAudited   = declare("server_audit_lines_total", "lines of the audit log that were written")
	ownUnaudited = declare("server_audit_lines_lost_total", "lines of the audit log that were lost, because the file could not be written, or not fast enough")
	ownBackups   = declare("backups_total", "backups that the server has taken by itself, including those that found nothing new; only with conclave.backupPlace, like the others of this name")
	ownBackFails = declare("backup_failures_total", "backups that the server could not take")
	ownBackGaps  = declare("backup_gaps_total", "backups with a gap before them, because the log did not reach back far enough")
	ownBackBytes = declare("backup_bytes_total", "bytes that backups have written, as stored")
	ownBackEvery = declare("backup_interval_seconds", "how often a backup is due")
	ownBackAge   = declare("backup_age_seconds", "seconds since the last backup was taken, or since this server became the one to take them; only while it is")
	ownTraces    = declare("trace_spans_total", "spans of traces that were sent (conclave.traceEndpoint)")
	ownUntraced  = declare("trace_spans_lost_total", "spans that were lost, because the receiver did not take them, or not fast enough")
	ownInSync    = declare("server_learner_in_sync", "1 if the learner has everything that is committed, or nearly; on the leader", "server")
	ownLag       = declare("server_learner_lag", "committed transactions that a follower has not acknowledged; on the leader", "server")
	ownQuiet     = declare("server_learner_silent_seconds", "seconds since the last message from the learner; on the leader", "server")
	ownDirBytes  = declare("server_dir_bytes", "bytes of the files in a data directory of the server: that of the snapshots, or that of the log", "dir")
	ownDiskBytes = declare("server_disk_bytes", "bytes of the disk that a directory is on; on Linux and macOS", "dir")
	ownDiskFree  = declare("server_disk_free_bytes", "free bytes of that disk that the server may use", "dir")
	ownConnsMax  = declare("server_connections_max", "limit of client connections (maxCnxns); 0 is no limit")
	ownReads     = declare("server_read_seconds", "as readlatency, a histogram")
	ownUpdates   = declare("server_update_seconds", "as updatelatency, a histogram; in whole ms, those below 1 ms are in the first bucket")
	ownSyncs     = declare("server_sync_seconds", "as fsynctime, a histogram")
	ownSnapshots = declare("server_snapshot_seconds", "as snapshottime, a histogram")
)

// disks emits the sizes of the directories and the space on their disks.
func (c *Collector) disks(dirs []dir, out chan<- prometheus.Metric) {
	send := func(n *ownName, v float64, use string) {
		out <- prometheus.MustNewConstMetric(n.desc, prometheus.GaugeValue, v, use)
	}
	for _, d := range dirs {
		send(ownDirBytes, float64(c.server.DirBytes(d.path)), d.use)
		if bytes, free, ok := admin.Space(d.path); ok {
			send(ownDiskBytes, bytes, d.use)
			send(ownDiskFree, free, d.use)
		}
	}
}

// own emits our own metrics.
func own(s *sample, out chan<- prometheus.Metric) {
	gauge := func(n *ownName, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(n.desc, prometheus.GaugeValue, v, labels...)
	}
	gauge(ownInfo, 1, s.version, string(s.Mode), strconv.FormatUint(uint64(s.ID), 10))
	gauge(ownServing, oneIf(s.Mode != server.ModeLooking && s.Mode != server.ModeReadOnly))
	gauge(ownRole, s.RoleTime.Seconds())
	gauge(ownDisk, oneIf(s.DiskFull))
	gauge(ownClosed, float64(len(s.PortsFailed)))
	gauge(ownConnsMax, float64(s.connsMax))
	out <- prometheus.MustNewConstMetric(ownReaped.desc, prometheus.CounterValue, float64(s.Counts.Reaped))
	out <- prometheus.MustNewConstMetric(ownPaced.desc, prometheus.CounterValue, float64(s.Refusals.Paced))
	out <- prometheus.MustNewConstMetric(ownIdentity.desc, prometheus.CounterValue, float64(s.Refusals.Identities))
	out <- prometheus.MustNewConstMetric(ownUnwatched.desc, prometheus.CounterValue, float64(s.Refusals.Watches))
	out <- prometheus.MustNewConstMetric(ownAudited.desc, prometheus.CounterValue, float64(s.Audit.Written))
	out <- prometheus.MustNewConstMetric(ownUnaudited.desc, prometheus.CounterValue, float64(s.Audit.Lost))
	out <- prometheus.MustNewConstMetric(ownTraces.desc, prometheus.CounterValue, float64(s.Traces.Sent))
	out <- prometheus.MustNewConstMetric(ownUntraced.desc, prometheus.CounterValue, float64(s.Traces.Lost))
	if b := &s.Backups; b.On {
		for n, v := range map[*ownName]int64{ownBackups: b.Taken, ownBackFails: b.Failed, ownBackGaps: b.Gaps, ownBackBytes: b.Bytes} {
			out <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(v))
		}
		gauge(ownBackEvery, b.Every.Seconds())
		if b.Due {
			gauge(ownBackAge, b.Age.Seconds())
		}
	}
	if s.Ensemble != nil {
		gauge(ownLeader, float64(s.Leader))
		gauge(ownEpoch, float64(s.Epoch))
		if s.Mode != server.ModeLeader {
			gauge(ownSilent, s.LeaderSilent.Seconds())
		}
	}
	told := map[quorum.ID]bool{}
	for i := range s.Learners {
		l := &s.Learners[i]
		if told[l.Server] {
			continue // an older link of the same learner, or a stranger that claims the same number
		}
		told[l.Server] = true
		id := strconv.FormatUint(uint64(l.Server), 10)
		gauge(ownInSync, oneIf(l.InSync), id)
		gauge(ownQuiet, float64(l.SilentMs)/1000, id)
		if !l.Observer {
			gauge(ownLag, float64(s.Lag(l)), id)
		}
	}
	for n, d := range map[*ownName]*tally.Distribution{ownReads: &s.Reads, ownUpdates: &s.Updates, ownSyncs: &s.SyncTimes, ownSnapshots: &s.Snapshots} {
		out <- histogram(n.desc, d)
	}
}

// histogram converts a distribution of microseconds to seconds, with a bucket for each
// power of two from 128 µs to 67 s.
func histogram(desc *prometheus.Desc, d *tally.Distribution) prometheus.Metric {
	const first, last = 7, 26
	buckets, below, next := map[float64]uint64{}, int64(0), 0
	for power := first; power <= last; power++ {
		for ; next < tally.BucketOf(1<<power); next++ {
			below += d.Buckets[next]
		}
		buckets[float64(int64(1)<<power)/1e6] = uint64(below)
	}
	return prometheus.MustNewConstHistogram(desc, uint64(d.Count), float64(d.Sum)/1e6, buckets)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
