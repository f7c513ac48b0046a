package server

import "time"

// quotaLogEvery is how often the operator is told of one path's quota.
const quotaLogEvery = time.Minute

// quotaLogMax is how many paths the operator is told of in that time: clients make quotas.
const quotaLogMax = 1024

// quotaLog is when the operator was told of which path, since a moment.
type quotaLog struct {
	told    map[string]int64
	sinceMs int64
}

// takes reports whether a path is to be told of now.
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

// warnQuotas tells the operator of quotas that were exceeded, each path once a
// minute, and so many of them. The loop calls it.
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

// warnUnasked tells the operator, once a minute, of watchers that were disconnected since a
// transaction had too many questions about what they may read. The loop calls it.
func (s *Server) warnUnasked(connections int) {
	if connections == 0 {
		return
	}
	if count, tell := s.stats.unasked.NoteAll(s.loopMs, int64(connections)); tell {
		s.cfg.Logger.Warn("disconnected clients that watch what a transaction changed: checking whether they may read it takes too long, "+
			"because they have proved many names or the ACLs are long", "disconnected", count)
	}
}
