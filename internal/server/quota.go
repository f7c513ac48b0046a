package server

import "time"

// quotaLogEvery is how often one path's quota is reported to the operator.
const quotaLogEvery = time.Minute

// quotaLogMax is how many paths are reported to the operator in that time, because clients
// create quotas.
const quotaLogMax = 1024

// quotaLog records when each path was last reported, since a moment.
type quotaLog struct {
	told    map[string]int64
	sinceMs int64
}

// takes reports whether to report a path now.
func (q *quotaLog) takes(path string, nowMs int64) bool {
	if at, ok := q.told[path]; ok && nowMs-at < quotaLogEvery.Milliseconds() {
		return false
	}
	if len(q.told) >= quotaLogMax {
		if nowMs-q.sinceMs < quotaLogEvery.Milliseconds() {
			return false
		}
		clear(q.told)
	}
	if len(q.told) == 0 {
		q.told, q.sinceMs = map[string]int64{}, nowMs
	}
	q.told[path] = nowMs
	return true
}

// warnQuotas tells the operator about exceeded quotas, each path once a minute, and only so
// many paths. The loop calls it.
func (s *Server) warnQuotas(paths []string, log *quotaLog) {
	for _, path := range paths {
		if !log.takes(path, s.loopMs) {
			continue
		}
		limits, usage := s.replica.Tree().QuotaState(path)
		s.cfg.Logger.Warn("quota exceeded", "path", path, "count", usage.Count, "countLimit", limits.Count,
			"countHardLimit", limits.CountHard, "bytes", usage.Bytes, "byteLimit", limits.Bytes, "byteHardLimit", limits.BytesHard)
	}
}

// warnUnasked tells the operator, once a minute, about watchers that were disconnected because
// a transaction had too many questions about what they may read. The loop calls it.
func (s *Server) warnUnasked(connections int) {
	if connections == 0 {
		return
	}
	if count, tell := s.stats.unasked.NoteAll(s.loopMs, int64(connections)); tell {
		s.cfg.Logger.Warn("disconnected clients that watch what a transaction changed: checking whether they may read it takes too long, "+
			"because they have proved many names or the ACLs are long", "disconnected", count)
	}
}
