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

// A guardian that stalled before it started the command (or took that long to start) starts
// neither the command nor any hook once the leadership is over: where OnElected was not begun,
// OnLost does not run.
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
		order: startOrder{Path: "/bin/sh", Args: each[octets]([]string{"sh", "-c", ": >" + mark}), Env: each[octets](os.Environ()),
			Hooks: hooks{Lost: octets(": >" + mark), Limit: time.Minute}}}
	g.lead()
	_ = sent.Close()
	for report := range reports {
		if report.Started != 0 || report.Begun || report.Losing {
			_, err := os.Stat(mark)
			t.Errorf("%+v 1 s after the deadline; it has acted: %v", report, err == nil)
		}
	}
}

// A guardian that was delayed until the command had to be killed still reports that the
// leadership has expired, not that the command has returned.
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
