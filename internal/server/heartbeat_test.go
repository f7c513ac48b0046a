package server

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// opaque hides the kind of a connection, as TLS does.
type opaque struct{ net.Listener }

func (o opaque) Accept() (net.Conn, error) {
	socket, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{socket}, nil
}

// The session of a client that sends nothing any more ends, even if events are sent to it all
// the time: its kernel takes them, or it reads them and hangs.
func TestEventsSentToAClientAreNotItsHeartbeats(t *testing.T) {
	for name, wrap := range map[string]func(net.Listener, bool) net.Listener{
		"plain": nil, "as over TLS": func(l net.Listener, _ bool) net.Listener { return opaque{l} },
	} {
		t.Run(name, func(t *testing.T) {
			now := clock.NewManual(0)
			s := start(t, vfs.NewMem(), func(c *Config) {
				c.Clock, c.SessionMin, c.SessionMax, c.SecureClients = now, 400*time.Millisecond, 800*time.Millisecond, wrap
			})
			other, hung := dial(t, s, nil), dial(t, s, nil)
			other.do(create("/watched", "", 0))
			hung.do(create("/lock", "", zk.Ephemeral))
			hung.do(zk.Request{Op: zk.OpAddWatch, Path: "/watched", Watches: zk.WatchPersistent})
			for i := 0; ; i++ {
				if code, _ := other.do(zk.Request{Op: zk.OpExists, Path: "/lock"}); code == zk.ErrNoNode {
					break
				}
				if now.Now() > clock.Instant(10*time.Second) {
					t.Fatalf("after %d events it has its session still", i)
				}
				other.do(zk.Request{Op: zk.OpSetData, Path: "/watched", Data: fmt.Append(nil, i), Version: -1})
				now.Advance(20 * time.Millisecond)
			}
		})
	}
}
