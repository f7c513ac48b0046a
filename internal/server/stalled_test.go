package server

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The log names the disk while it hangs, once, and says when it works again.
func TestDiskThatHangsIsInTheLog(t *testing.T) {
	var hangs atomic.Bool
	inside, goOn := make(chan struct{}, 1), make(chan struct{})
	disk := &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindSync && isLog(op) && hangs.Load() {
			inside <- struct{}{}
			<-goOn
		}
		return nil
	}}
	now, log := clock.NewManual(0), &awaittest.Log{}
	s := start(t, disk, func(c *Config) { c.Clock, c.Logger = now, slog.New(slog.NewTextHandler(log, nil)) })
	p := dial(t, s, nil)
	p.must(zk.OK, create("/quick", "", 0))
	hangs.Store(true)
	p.send(create("/slow", "", 0))
	<-inside
	says := func(text string) func() bool {
		return func() bool {
			now.Advance(s.cfg.TickTime / 4)
			return strings.Contains(log.String(), text)
		}
	}
	awaittest.Until(t, "it is said", says("the disk hangs"))
	if at := now.Now().Millis(); at < stalledTime.Milliseconds() {
		t.Errorf("it is said after %d ms", at)
	}
	hangs.Store(false)
	close(goOn)
	awaittest.Until(t, "the end is said", says("the disk works again"))
	if n := strings.Count(log.String(), "the disk hangs"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log)
	}
}

// A pause of the process is not one of the disk: when it goes on, an operation seems to have
// taken long, and is done a moment later.
func TestPauseOfTheProcessIsNoHangingDisk(t *testing.T) {
	now, log := clock.NewManual(0), &awaittest.Log{}
	s, err := New(testConfig(vfs.NewMem(), func(c *Config) { c.Clock, c.Logger = now, slog.New(slog.NewTextHandler(log, nil)) }))
	if err != nil {
		t.Fatal(err)
	}
	s.disk.stalled.begin(s.monoMs(), false)
	s.tellStalled()
	now.Advance(2 * stalledTime)
	s.tellStalled()
	s.disk.stalled.end()
	for range 2 * stalledTicks {
		s.tellStalled()
	}
	s.close()
	if strings.Contains(log.String(), "disk") {
		t.Errorf("the log says:\n%s", log)
	}
}

// hangs returns a server on whose disk an operation of this kind has taken very long, and its log.
func hangs(t *testing.T, kind replica.DiskKind, logDir string) (s *Server, log *awaittest.Log) {
	t.Helper()
	now := clock.NewManual(0)
	var slow atomic.Bool
	disk := &vfs.Faulty{Disk: vfs.NewMem(), Before: func(vfs.Op) error {
		if slow.Load() {
			for range 2 * stalledTicks {
				now.Advance(stalledTime)
				s.tellStalled()
			}
		}
		return nil
	}}
	log = &awaittest.Log{}
	var err error
	s, err = New(testConfig(disk, func(c *Config) {
		c.DataLogDir, c.Clock, c.Logger = logDir, now, slog.New(slog.NewTextHandler(log, nil))
	}))
	if err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	if _, err := s.do(&diskWork{DiskOp: replica.DiskOp{Kind: kind, Epoch: 1}}); err != nil {
		t.Error(err)
	}
	slow.Store(false)
	return s, log
}

// What reads or writes the whole state may take long with a disk that works.
func TestLongOperationIsNoHangingDisk(t *testing.T) {
	for kind, want := range map[replica.DiskKind]bool{replica.DiskSetAccepted: true, replica.DiskReload: false} {
		s, log := hangs(t, kind, "")
		s.close()
		if got := strings.Contains(log.String(), "the disk hangs"); got != want {
			t.Errorf("operation %v: said %v, want %v\n%s", kind, got, want, log)
		}
	}
}

// With dataLogDir, the epochs are on another disk than the log. What is said names the directory whose disk it is.
func TestDiskThatHangsIsNamed(t *testing.T) {
	for kind, epochs := range map[replica.DiskKind]bool{replica.DiskSetAccepted: true, replica.DiskEndAlone: false} {
		s, log := hangs(t, kind, "/log")
		s.disk.stalled.end()
		s.tellStalled()
		s.close()
		want := s.LogDir()
		if epochs {
			want = s.SnapDir()
		}
		if n := strings.Count(log.String(), " dir="+want); n != 2 { // that it hangs, and that it works again
			t.Errorf("operation %v: %s is named %d times:\n%s", kind, want, n, log)
		}
	}
}
