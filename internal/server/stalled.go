package server

import (
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
)

// stalled records since when the disk has been at one operation, unless that may take long. A disk that hangs reports no
// error, and what follows from it names other servers: a leader loses its quorum, followers find
// it silent, and a stop takes as long as the disk.
type stalled struct {
	sinceMs atomic.Int64 // 0: it is at nothing, or waits for space
	epochs  atomic.Bool  // the operation is on the files of the epochs, which are beside the snapshots

	// Of runTicks.
	seenMs int64  // sinceMs at the last tick
	ticks  int    // at how many ticks it was that
	told   string // the directory of which the log says that its disk hangs, and not yet that it works again
	toldMs int64  // when that was last said
}

const (
	stalledTime  = 5 * time.Second
	stalledTicks = 3 // after a pause of the process, time has passed, but not for the disk
	stalledAgain = time.Minute
)

// begin records that the disk begins an operation, on the log or on the files of the epochs.
func (t *stalled) begin(nowMs int64, epochs bool) {
	t.epochs.Store(epochs)
	t.sinceMs.Store(max(nowMs, 1))
}

// end records that it does nothing.
func (t *stalled) end() { t.sinceMs.Store(0) }

// takesTheWholeState reports whether an operation reads or writes the whole state, which may take
// long although the disk does not hang.
func takesTheWholeState(kind replica.DiskKind) bool {
	return kind == replica.DiskTruncate || kind == replica.DiskSaveSnapshot || kind == replica.DiskReload
}

// tellStalled logs that an operation takes very long, and the end of that.
func (s *Server) tellStalled() {
	t, nowMs := &s.disk.stalled, s.monoMs()
	since := t.sinceMs.Load()
	if t.ticks++; since != t.seenMs {
		t.seenMs, t.ticks = since, 0
	}
	hangs := since != 0 && nowMs-since >= stalledTime.Milliseconds() && t.ticks >= stalledTicks
	switch {
	case !hangs && t.told != "":
		s.cfg.Logger.Info("the disk works again", "dir", t.told)
		t.told = ""
	case hangs && t.told == "" && (t.toldMs == 0 || nowMs-t.toldMs >= stalledAgain.Milliseconds()):
		if t.told, t.toldMs = s.LogDir(), nowMs; t.epochs.Load() {
			t.told = s.SnapDir()
		}
		s.cfg.Logger.Warn("the disk hangs: an operation has taken this long and is not done; meanwhile this server "+
			"acknowledges nothing, takes no new role, and does not end", "dir", t.told, "for", time.Duration(nowMs-since)*time.Millisecond)
	}
}

// onEpochs reports whether an operation is on the files of the epochs.
func onEpochs(kind replica.DiskKind) bool {
	return kind == replica.DiskSetAccepted || kind == replica.DiskSetCurrent
}
