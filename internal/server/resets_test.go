package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// crst resets the figures of connections and srst the totals, as in Apache's server: neither
// resets the other's figures.
func TestResetsLeaveEachOthersFigures(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.must(zk.OK, create("/a", "", 0))
	own := func() int64 { return s.Conns()[0].Sent }
	if s.Status().Sent != 2 || own() != 2 {
		t.Fatalf("sent %d, and %d by the connection", s.Status().Sent, own())
	}
	s.ResetConnStats()
	if s.Status().Sent != 2 || own() != 0 {
		t.Errorf("after crst: sent %d, and %d by the connection", s.Status().Sent, own())
	}
	p.must(zk.OK, zk.Request{Op: zk.OpGetData, Path: "/a"})
	s.ResetStats()
	if c := s.Conns()[0]; s.Status().Sent != 0 || c.Sent != 1 || c.LastOp != zk.OpGetData {
		t.Errorf("after srst: sent %d, and %d by the connection, the last to %v", s.Status().Sent, c.Sent, c.LastOp)
	}
	p.must(zk.OK, zk.Request{Op: zk.OpGetData, Path: "/a"})
	if s.Status().Sent != 1 || own() != 2 {
		t.Errorf("sent %d, and %d by the connection", s.Status().Sent, own())
	}
}
