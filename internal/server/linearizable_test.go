package server

import (
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A read waits for a sync that was requested after it arrived, whatever its client has sent
// before it: even a ping, after so many reads that the connection answers the next by itself.
func TestNoPingLetsALinearizableReadPass(t *testing.T) {
	synctest.Test(t, noPingLetsALinearizableReadPass)
}

func noPingLetsALinearizableReadPass(t *testing.T) {
	leader, others, net := threeServers(t, func(c *Config) {
		c.TickTime, c.SyncLimit, c.InitLimit = 100*time.Millisecond, 3, 1000
		c.SessionMin, c.SessionMax, c.LinearizableReads = 10*time.Second, 10*time.Second, true
	})
	p := reach(t, net, others[0])
	for range readsBehindMax {
		p.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/"})
	}
	resume := sync.OnceFunc(holdLoops(leader))
	defer resume()
	p.send(zk.Request{Op: zk.OpPing}, zk.Request{Op: zk.OpExists, Path: "/"})
	if h, _ := p.reply(zk.OpPing); h.Code != zk.OK {
		t.Error(h)
	}
	_ = p.socket.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := p.socket.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a follower answers a read while its leader answers no sync: %v", err)
	}
	resume()
	if h, _ := p.reply(zk.OpExists); h.Code != zk.OK {
		t.Error(h)
	}
}

// A read that its connection answers after a sync has come counts as one packet sent.
func TestReadsThatWaitForASyncAreSentOnce(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.LinearizableReads = true })
	p := dial(t, s, nil)
	for range 3 {
		p.must(zk.OK, zk.Request{Op: zk.OpGetEphemerals, Path: "/"})
	}
	if sent, own := s.Status().Sent, s.Conns()[0].Sent; sent != 4 || own != 4 {
		t.Errorf("sent %d, and %d by the connection, for a handshake and three reads", sent, own)
	}
}
