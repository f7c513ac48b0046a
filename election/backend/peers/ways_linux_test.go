package peers_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/test/servers"
)

func init() { newWays = linkWays }

// linkWay is a proxy through which all others reach a member, together with that
// member's disk. Members with lower ids dial, so what goes to the member counts
// as the requests of the link.
type linkWay struct {
	*servers.Link
	slow atomic.Int64
}

// Slow makes each sync of the disk take that long.
func (w *linkWay) Slow(by time.Duration) { w.slow.Store(int64(by)) }

// Mute drops what the others send to the member, but not what it sends to them.
func (w *linkWay) Mute() { w.CutRequests() }

// Heal ends both.
func (w *linkWay) Heal() {
	w.Slow(0)
	w.Link.Heal()
}

// BeforeDisk is called before each operation on the disk.
func (w *linkWay) BeforeDisk(op vfs.Op) error {
	if op.Kind == vfs.KindSync || op.Kind == vfs.KindSyncDir {
		awaittest.RealTime(time.Duration(w.slow.Load()), "the disk is slow")
	}
	return nil
}

// linkWays changes the addresses of the members, and returns the ways, the last one first.
func linkWays(t testing.TB, members []peers.Member, listeners []net.Listener) []way {
	var ways []way
	for i := len(members) - 1; i >= 0; i-- {
		link, err := servers.NewLink(members[i].Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(link.Close)
		members[i].Addr = link.Addr
		ways = append(ways, way{members[i], listeners[i], &linkWay{Link: link}})
	}
	return ways
}
