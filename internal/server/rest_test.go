package server

import (
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A connection that rests has the smallest stack, whatever its requests have needed; and it goes
// on with the next one. How small that is depends on the build: as that of a goroutine which
// waits for a channel.
func TestConnectionsThatRestHaveTheSmallestStack(t *testing.T) {
	const conns = 400
	s := start(t, vfs.NewMem(), func(c *Config) { c.ConnsPerIPMax = 0 })
	stacks := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what goroutines that have ended had
		runtime.ReadMemStats(&m)
		return int64(m.StackInuse)
	}
	end, before := make(chan struct{}), stacks()
	for range conns {
		go func() { <-end }()
	}
	least := stacks() - before
	close(end)
	awaittest.Until(t, "they have ended", func() bool { return stacks() < before+least/2 })
	before = stacks()
	var all []*peer
	for range conns {
		p := dial(t, s, nil)
		p.must(zk.OK, zk.Request{Op: zk.OpGetChildren, Path: "/"})
		all = append(all, p)
	}
	for _, p := range all {
		p.must(zk.OK, zk.Request{Op: zk.OpPing})
	}
	var most int64
	awaittest.Until(t, "all rest on the smallest stack", func() bool { most = stacks() - before; return most < least*3/2 })
	t.Logf("%d bytes of stacks for each connection, %d for a goroutine", most/conns, least/conns)
	for _, p := range all {
		p.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/"})
	}
}
