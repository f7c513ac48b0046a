package server

import (
	"fmt"
	"testing"
)

// Clients create as many quotas as they like: the log has a limited number of lines a minute
// about them.
func TestLinesAboutQuotasAreBounded(t *testing.T) {
	var log quotaLog
	lines := func(paths int, nowMs int64) (n int) {
		for i := range paths {
			if log.takes(fmt.Sprint("/", i), nowMs) {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		paths int
		nowMs int64
		want  int
	}{
		{900, 5, 900}, {900, 6, 0}, {3000, 7, quotaLogMax - 900}, {3000, 50_000, 0}, {10, 60_006, 10}, {3000, 60_008, quotaLogMax - 10},
	} {
		if got := lines(step.paths, step.nowMs); got != step.want {
			t.Errorf("%d paths at %d ms: %d lines, not %d", step.paths, step.nowMs, got, step.want)
		}
	}
}
