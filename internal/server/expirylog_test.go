package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A program that has lost its session names it in its own log, and an operator looks for it here. Local sessions,
// which only this server knows, are no exception.
func TestLogNamesASessionThatHasExpired(t *testing.T) {
	for _, local := range []bool{false, true} {
		now, log := clock.NewManual(0), &awaittest.Log{}
		s := start(t, vfs.NewMem(), func(c *Config) {
			c.Clock, c.SessionMin, c.SessionMax, c.LocalSessions = now, time.Second, 4*time.Second, local
			c.Logger = slog.New(slog.NewTextHandler(log, nil))
		})
		silent, ended, alive := dial(t, s, nil), dial(t, s, nil), dial(t, s, nil)
		ended.do(zk.Request{Op: zk.OpCloseSession})
		line := fmt.Sprintf(`level=INFO msg="session expired" session=%v timeoutMs=4000`, silent.id)
		awaittest.Until(t, line, func() bool {
			now.Advance(s.cfg.TickTime / 4)
			alive.do(zk.Request{Op: zk.OpSync, Path: "/"})
			return strings.Contains(log.String(), line)
		})
		if n := strings.Count(log.String(), "session expired"); n != 1 {
			t.Errorf("%d sessions have expired:\n%s", n, log)
		}
	}
}

// All sessions of a site may expire in one step, which neither names nor looks up all of them.
func TestLogCountsTheSessionsBeyondAHundred(t *testing.T) {
	now, log := clock.NewManual(0), &awaittest.Log{}
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ConnsPerIPMax, c.Clock, c.SessionMin, c.SessionMax, c.Logger = 0, now, time.Second, 4*time.Second, slog.New(slog.NewTextHandler(log, nil))
	})
	const sessions = 150
	for range sessions {
		dial(t, s, nil)
	}
	awaittest.Until(t, "the log has counted those beyond a hundred", func() bool {
		now.Advance(s.cfg.TickTime / 4)
		return strings.Contains(log.String(), "unnamed=50")
	})
	if n := strings.Count(log.String(), "session expired"); n != 100 {
		t.Errorf("%d sessions are named", n)
	}
}

func TestLinesAboutExpiredSessionsAreBounded(t *testing.T) {
	output := &awaittest.Log{}
	s := &Server{}
	s.cfg.Logger = slog.New(slog.NewTextHandler(output, nil))
	var log expiryLog
	named := func(sessions int, nowMs int64) int {
		before := strings.Count(output.String(), "session expired")
		s.loopMs = nowMs
		s.tellExpired(make([]session.Lease, min(sessions, 200)), max(0, sessions-200), &log)
		return strings.Count(output.String(), "session expired") - before
	}
	for _, step := range []struct {
		sessions int
		nowMs    int64
		want     int
	}{
		{90, 5, 90}, {1_000_000, 6, 10}, {3, 59_999, 0}, {3, 60_000, 3}, {0, 120_000, 0}, {200, 120_001, 100},
	} {
		if got := named(step.sessions, step.nowMs); got != step.want {
			t.Errorf("%d sessions at %d ms: %d lines, not %d", step.sessions, step.nowMs, got, step.want)
		}
	}
	for _, line := range []string{"unnamed=999990", "unnamed=1000093"} {
		if !strings.Contains(output.String(), line) {
			t.Errorf("no %s:\n%.2000s", line, output.String())
		}
	}
	if n := strings.Count(output.String(), "unnamed="); n != 2 {
		t.Errorf("%d lines count the others", n)
	}
}
