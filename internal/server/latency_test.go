package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func TestEveryRequestCountsInItsConnectionsLatency(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.do(create("/l", "", 0))
	for range 3 {
		p.do(zk.Request{Op: zk.OpGetData, Path: "/l"})
	}
	c := s.conns.all()[0]
	awaittest.Until(t, "three reads and a write are counted", func() bool {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.stats.latency.count == 4
	})
}
