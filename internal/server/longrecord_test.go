package server

import (
	"bytes"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// A disk that fills is no reason to end, however little space is allocated ahead: a longer
// record waits for space.
func TestLongRecordWaitsForSpace(t *testing.T) {
	disk := vfs.NewMem()
	s, stop := launch(t, disk, func(c *Config) { c.PreallocBytes, c.TickTime = 64<<10, 2*time.Second })
	p := dial(t, s, nil)
	p.do(create("/a", "", 0))
	disk.SetCapacity(disk.Used() + 500_000)
	p.send(zk.Request{Op: zk.OpSetData, Path: "/a", Data: bytes.Repeat([]byte("x"), 900_000), Version: -1})
	awaittest.Until(t, "the disk is full, or the server has ended", func() bool { return s.diskFull.Load() || s.done.Err() != nil })
	if s.done.Err() != nil {
		t.Fatalf("the server has ended: %v", stop())
	}
	disk.SetCapacity(-1)
	if _, err := readFrame(p.socket); err != nil {
		t.Errorf("no reply when there was space again: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Whatever the settings are, no record is longer than what a znode may hold: that bounds what
// is read from disk and from a leader.
func TestARecordFitsIntoAZnode(t *testing.T) {
	for _, c := range []struct{ frame, extra, want int }{
		{1 << 20, 0, 2 << 20},
		{1 << 20, 5, 1<<20 + 1<<10},
		{1 << 30, 0, tree.DataMax},
		{1 << 30, 1 << 30, tree.DataMax},
		{1, 1 << 30, tree.DataMax},
	} {
		cfg := Config{}
		cfg.FrameBytesMax, cfg.ExtraBytesMax = c.frame, c.extra
		if got := cfg.ReadBytesMax(); got != max(c.want, 2*wire.FrameBytesMax) {
			t.Errorf("frames of %d, %d more: records of %d, want %d", c.frame, c.extra, got, c.want)
		}
	}
}
