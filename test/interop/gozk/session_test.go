//go:build interop

package gozk

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A cutter is a TCP proxy to the server that can close its connections.
type cutter struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	open  bool
	conns map[net.Conn]bool
}

func newCutter(t *testing.T) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{listener: l, target: address(t), open: true, conns: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		p.setOpen(false)
	})
	return p
}

func (p *cutter) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		if !p.open {
			client.Close()
			server.Close()
		}
		p.mu.Unlock()
		go copyAndClose(client, server)
		go copyAndClose(server, client)
	}
}

func copyAndClose(to, from net.Conn) {
	io.Copy(to, from) // ends when either side is closed
	to.Close()
	from.Close()
}

// setOpen(false) closes all connections and refuses new ones until setOpen(true).
func (p *cutter) setOpen(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
	if !open {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
}

func TestASessionSurvivesACut(t *testing.T) {
	proxy, direct := newCutter(t), connect(t)
	c, _ := dial(t, proxy.listener.Addr().String(), 8*time.Second)
	base := fresh(t, c)
	must[string](t)(c.Create(base+"/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))
	_, _, data, err := c.GetW(base)
	must[int](t)(0, err)
	_, _, quiet, err := c.GetW(base + "/e")
	must[int](t)(0, err)
	session := c.SessionID()
	proxy.setOpen(false)
	must[*zk.Stat](t)(direct.Set(base, []byte("during the cut"), -1))
	proxy.setOpen(true)
	expect(t, data, zk.EventNodeDataChanged, base)
	await(t, "session again", func() bool { return c.State() == zk.StateHasSession })
	if c.SessionID() != session {
		t.Errorf("session %x became %x", session, c.SessionID())
	}
	_, stat, err := direct.Exists(base + "/e")
	if err != nil || stat.EphemeralOwner != session {
		t.Errorf("ephemeral after the cut: %+v %v", stat, err)
	}
	must[*zk.Stat](t)(direct.Set(base+"/e", nil, -1))
	expect(t, quiet, zk.EventNodeDataChanged, base+"/e")
}

func TestASilentSessionExpires(t *testing.T) {
	proxy, direct := newCutter(t), connect(t)
	c, events := dial(t, proxy.listener.Addr().String(), time.Second)
	base := fresh(t, c)
	must[string](t)(c.Create(base+"/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))
	_, _, gone, err := direct.ExistsW(base + "/e")
	must[int](t)(0, err)
	proxy.setOpen(false)
	expect(t, gone, zk.EventNodeDeleted, base+"/e")
	proxy.setOpen(true)
	for deadline := time.After(wait); ; {
		select {
		case e := <-events:
			if e.State == zk.StateExpired {
				return
			}
		case <-deadline:
			t.Fatal("the client was not told that its session expired")
		}
	}
}

func TestClosingDeletesEphemerals(t *testing.T) {
	direct := connect(t)
	base := fresh(t, direct)
	c, _ := dial(t, address(t), 8*time.Second)
	must[string](t)(c.Create(base+"/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))
	c.Close()
	await(t, "ephemeral gone", func() bool {
		ok, _, err := direct.Exists(base + "/e")
		return err == nil && !ok
	})
}
