//go:build unix

package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// A guardian that stalled before it started the command (or whose start took
// that long) does not start it when the leadership is over, nor any hook: where
// OnElected was not begun, OnLost does not run.
func TestNothingIsStartedAfterTheDeadline(t *testing.T) {
	_, shared, err := newPage()
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	shared.set(leaseTimes{End: now.Add(-2 * time.Second), Deadline: now.Add(-time.Second)})
	seen, sent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan status, 16)
	go receive(seen, reports)
	mark := filepath.Join(t.TempDir(), "acted")
	g := &guardian{clock: clock.System(), control: make(chan message, messagesMax), say: sender[status](sent), page: shared,
		order: startOrder{Path: "/bin/sh", Args: []string{"sh", "-c", ": >" + mark}, Env: os.Environ(),
			Hooks: hooks{Lost: ": >" + mark, Limit: time.Minute}}}
	g.lead()
	_ = sent.Close()
	for report := range reports {
		if report.Started != 0 || report.Begun || report.Losing {
			_, err := os.Stat(mark)
			t.Errorf("%+v 1 s after the deadline; it has acted: %v", report, err == nil)
		}
	}
}

// A guardian that was held up from before the end until the command must be killed says all the
// same that the leadership has expired, and not that the command has returned.
func TestLateGuardianTellsWhyItKills(t *testing.T) {
	_, shared, err := newPage()
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	shared.set(leaseTimes{End: now.Add(-2 * time.Second), Deadline: now.Add(-time.Second)})
	child := exec.Command("sleep", "60")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	g := &guardian{clock: clock.System(), page: shared, task: task{leased: true, pid: child.Process.Pid}}
	g.act()
	_ = child.Wait()
	g.end("returned")
	if !g.task.killing || g.reason != "expired" {
		t.Errorf("kills: %v, for %q", g.task.killing, g.reason)
	}
}
