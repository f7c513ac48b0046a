package server

import "time"

// quotaLogEvery is how often the operator is told of one path's quota.
const quotaLogEvery = time.Minute

// quotaLogMax bounds the memory of what was logged.
const quotaLogMax = 1024

// warnQuotas tells the operator of quotas that were exceeded, each path once a
// minute. The loop calls it; told is its memory.
func (s *Server) warnQuotas(paths []string, told map[string]int64) {
	for _, path := range paths {
		if at, ok := told[path]; ok && s.loopMs-at < quotaLogEvery.Milliseconds() {
			continue
		}
		if len(told) >= quotaLogMax {
			clear(told)
		}
		told[path] = s.loopMs
		limits, usage := s.replica.Tree().QuotaState(path)
		s.cfg.Logger.Warn("quota exceeded", "path", path, "count", usage.Count, "countLimit", limits.Count,
			"countHardLimit", limits.CountHard, "bytes", usage.Bytes, "byteLimit", limits.Bytes, "byteHardLimit", limits.BytesHard)
	}
}
