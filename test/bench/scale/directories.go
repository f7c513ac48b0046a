//go:build linux

package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/test/bench/middle"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

const (
	smallDirectory  = 100
	directoryFactor = 1.5 // as fast as in a small one, allowing for variation between runs
	pageNames       = 10_000
	directoryRounds = 5
	directoryAsks   = 400
)

// directories compares a directory with many children with a small one.
func directories(ctx context.Context, b *bench, t *Table) error {
	for _, n := range b.sizes([]int{10_000, 1_000_000}, []int{10_000, 1_000_000, 3_000_000, 10_000_000}) {
		if !fitsDisk(t, n) {
			continue
		}
		err := b.server(ctx, servers.Options{Config: []string{"autopurge.purgeInterval=15s"}}, func(s *servers.Server) error {
			return directory(ctx, b, t, s, n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func directory(ctx context.Context, b *bench, t *Table, s *servers.Server, n int) error {
	b.say("a directory of %d children", n)
	for prefix, many := range map[string]int{"/big": n, "/small": smallDirectory} {
		o := loadgen.Options{Addrs: []string{s.Addr}, Prefix: prefix, Znodes: many, DataBytes: 1}
		if err := loadgen.Fill(ctx, o); err != nil {
			return err
		}
	}
	if err := awaitNoSnapshot(ctx, s); err != nil {
		return err
	}
	c, err := probe.Dial(s.Addr, longSession)
	if err != nil {
		return err
	}
	defer c.Cut()
	next := map[string]int{} // number of the next child, by ask and directory
	for _, a := range asks {
		var big, small []time.Duration
		for range directoryRounds {
			for _, of := range []struct {
				prefix string
				to     *[]time.Duration
			}{{"/big", &big}, {"/small", &small}} {
				d, err := askMany(ctx, c, a, of.prefix, next)
				if err != nil {
					return fmt.Errorf("%s in %s: %w", a.name, of.prefix, err)
				}
				*of.to = append(*of.to, d)
			}
		}
		t.add(a.name+" in a directory", n, micros(middle.Of(big)), "µs")
		t.aim(a.name+" in a directory, times that in one of 100", n, float64(middle.Of(big))/float64(max(1, middle.Of(small))), "", directoryFactor)
	}
	return pages(ctx, t, c, s, n)
}

// An ask is a request about a child. create must come before delete, which deletes the
// child again.
type ask struct {
	name string
	of   func(c *probe.Conn, directory string, i int) error
}

var asks = []ask{
	{"create", func(c *probe.Conn, directory string, i int) error {
		_, err := c.Create(fmt.Sprintf("%s/new%06d", directory, i), nil, probe.World, probe.Persistent)
		return err
	}},
	{"exists", func(c *probe.Conn, directory string, i int) error {
		_, err := c.Exists(fmt.Sprintf("%s/d%09d", directory, i%smallDirectory))
		return err
	}},
	{"delete", func(c *probe.Conn, directory string, i int) error {
		return c.Delete(fmt.Sprintf("%s/new%06d", directory, i), -1)
	}},
}

// askMany returns the median time of some requests, sent one at a time.
func askMany(ctx context.Context, c *probe.Conn, a ask, directory string, next map[string]int) (time.Duration, error) {
	var h loadgen.Histogram
	for range directoryAsks {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		start := time.Now()
		if err := a.of(c, directory, next[a.name+directory]); err != nil {
			return 0, err
		}
		h.Add(time.Since(start), 1)
		next[a.name+directory]++
	}
	return h.Quantile(0.5), nil
}

// pages lists the directory page by page.
func pages(ctx context.Context, t *Table, c *probe.Conn, s *servers.Server, n int) error {
	before, err := s.RSS()
	if err != nil {
		return err
	}
	var cursor []byte
	var times []time.Duration
	listed, most := 0, before
	start := time.Now()
	for {
		asked := time.Now()
		names, next, err := page(c, "/big", cursor)
		if err != nil {
			return err
		}
		times = append(times, time.Since(asked))
		listed, cursor = listed+names, next
		if rss, err := s.RSS(); err == nil {
			most = max(most, rss)
		}
		if cursor == nil || ctx.Err() != nil {
			break
		}
	}
	if listed != n {
		return fmt.Errorf("%d of %d children in pages", listed, n)
	}
	t.flat("listing in pages of 10,000, for each child", n, micros(time.Since(start))/float64(n), "µs", 0)
	t.add("a page of 10,000, median", n, ms(middle.Of(times)), "ms")
	t.add("memory that the server takes for the pages", n, float64(most-before)/(1<<20), "MiB")
	return nil
}

// page requests one page, and returns the number of names in it and the cursor of the next
// page.
func page(c *probe.Conn, path string, cursor []byte) (names int, next []byte, err error) {
	request := zk.Request{Xid: 1 << 20, Op: zk.OpGetChildrenPage, Path: path, Data: cursor, Version: pageNames}
	if err := c.Write(wire.AppendRequest(nil, &request)); err != nil {
		return 0, nil, err
	}
	r, err := c.Receive()
	if err == nil && r.Code != 0 {
		err = r.Code
	}
	if err != nil {
		return 0, nil, err
	}
	result, err := wire.DecodeResult(zk.OpGetChildrenPage, 0, r.Body)
	return len(result.Children), result.Data, err
}
