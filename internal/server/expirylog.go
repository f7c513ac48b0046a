package server

import (
	"time"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
)

// The log names each session that has expired, because its client's program says that it was
// the server that ended it. It names at most replica.ExpiredMax within expiryLogEvery, because
// clients create sessions.
const expiryLogEvery = time.Minute

// expiryLog is how many sessions the log has named, since a moment.
type expiryLog struct {
	named   int
	sinceMs int64
}

// takes returns how many of some sessions to name now.
func (l *expiryLog) takes(sessions int, nowMs int64) int {
	if nowMs-l.sinceMs >= expiryLogEvery.Milliseconds() {
		l.named, l.sinceMs = 0, nowMs
	}
	n := min(sessions, replica.ExpiredMax-l.named)
	l.named += n
	return n
}

// tellExpired logs sessions that this server has found to have expired, and counts those without a
// name. The loop calls it.
func (s *Server) tellExpired(expired []session.Lease, unnamed int, log *expiryLog) {
	if len(expired) == 0 {
		return
	}
	named := log.takes(len(expired), s.loopMs)
	for _, e := range expired[:named] {
		s.cfg.Logger.Info("session expired", "session", e.ID, "timeoutMs", e.TimeoutMs)
	}
	if more := len(expired) - named + unnamed; more > 0 {
		if count, tell := s.stats.unnamed.NoteAll(s.loopMs, int64(more)); tell {
			s.cfg.Logger.Info("more sessions have expired than the log names", "unnamed", count)
		}
	}
}
