package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Every request of a client that sends many at once, of all kinds and in pieces of any size, is
// answered in order, whatever limit is in force: no connection waits for a lock or a turn that
// it holds itself.
func TestPipelinedRequestsOfAllKindsAreAnswered(t *testing.T) {
	for name, limit := range map[string]func(c *Config){
		"no limits":          func(*Config) {},
		"two turns":          func(c *Config) { c.Throttle.RequestsMax = 2 },
		"linearizable reads": func(c *Config) { c.LinearizableReads = true },
		"two turns, linearizable reads": func(c *Config) {
			c.Throttle.RequestsMax, c.LinearizableReads = 2, true
		},
		"one turn, large requests, few in flight": func(c *Config) {
			c.Throttle.RequestsMax, c.Throttle.LargeBytes, c.Throttle.LargeBytesMax = 1, 100, 400
			c.InFlightMax, c.EphemeralBytesMax = 2, 300
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, vfs.NewMem(), limit)
			var clients sync.WaitGroup
			for seed := range uint64(4) {
				p := dial(t, s, nil)
				clients.Go(func() {
					if err := pipelines(p, rand.New(rand.NewPCG(seed, 1))); err != nil {
						t.Errorf("client %d: %v", seed, err)
					}
				})
			}
			clients.Wait()
		})
	}
}

// pipelines sends random batches and reads their answers.
func pipelines(p *peer, random *rand.Rand) error {
	for range 500 {
		first := p.xid + 1
		var b []byte
		for range 1 + random.IntN(8) {
			p.xid++
			r := anyRequest(random)
			r.Xid = p.xid
			b = wire.AppendRequest(b, &r)
		}
		cut := random.IntN(len(b))
		for _, piece := range [][]byte{b[:cut], b[cut:]} {
			if _, err := p.socket.Write(piece); err != nil {
				return err
			}
		}
		for xid := first; xid <= p.xid; xid++ {
			if err := answered(p.socket, xid); err != nil {
				return fmt.Errorf("request %d: %w", xid, err)
			}
		}
	}
	return nil
}

// answered reads up to the answer to a request, which must be the next one.
func answered(socket net.Conn, xid zk.Xid) error {
	for {
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		payload, err := readFrame(socket)
		if err != nil {
			return err
		}
		h, _, err := wire.DecodeReplyHeader(payload)
		switch {
		case err != nil:
			return err
		case h.Xid == zk.XidNotification:
		case h.Xid != xid:
			return fmt.Errorf("the answer to %d comes", h.Xid)
		default:
			return nil
		}
	}
}

// anyRequest draws a request, which may fail.
func anyRequest(random *rand.Rand) zk.Request {
	path := fmt.Sprintf("/n%d", random.IntN(4))
	data := make([]byte, random.IntN(2)*random.IntN(300))
	get := zk.Request{Op: zk.OpGetData, Path: path, Watch: random.IntN(3) == 0}
	set := zk.Request{Op: zk.OpSetData, Path: path, Data: data, Version: -1}
	kinds := []zk.Request{
		get, get, get, set, set,
		create(path, string(data), 0),
		create(path+"/e", "", zk.Ephemeral),
		create(path+"/s-", "", zk.EphemeralSequential),
		{Op: zk.OpDelete, Path: path, Version: -1},
		{Op: zk.OpExists, Path: path, Watch: true},
		{Op: zk.OpGetChildren, Path: path, Watch: true},
		{Op: zk.OpGetChildren2, Path: "/"},
		{Op: zk.OpGetACL, Path: path},
		{Op: zk.OpSync, Path: path},
		{Op: zk.OpGetEphemerals, Path: "/"},
		{Op: zk.OpGetAllChildrenNumber, Path: "/"},
		{Op: zk.OpMulti, Ops: []zk.Request{set, {Op: zk.OpCheck, Path: path, Version: -1}}},
		{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: path}, {Op: zk.OpGetChildren, Path: "/"}}},
		{Op: zk.OpAddWatch, Path: path, Watches: zk.WatchPersistentRecursive},
		{Op: zk.OpRemoveWatches, Path: path, Watcher: zk.WatcherAny},
		{Op: zk.OpSetWatches, SetWatches: &zk.SetWatches{RelativeZxid: 1, Data: []string{path}, Child: []string{"/"}}},
		{Op: zk.OpWhoAmI},
		{Op: zk.OpPing},
	}
	return kinds[random.IntN(len(kinds))]
}
