package peers_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/lobby"
)

// Strangers who open some connections to each member and say nothing - no certificate,
// not even the first byte of TLS - keep the members of a group not apart.
func TestSilentStrangersKeepNoMembersApart(t *testing.T) {
	const strangers = 80 // to each member; more than a lobby has places for
	authority := newAuthority(t)
	dir := t.TempDir()
	var members []peers.Member
	var listeners []net.Listener
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		members = append(members, peers.Member{ID: algo.ID(rune('a' + i)), Addr: l.Addr().String()})
	}
	ctx, end := context.WithCancel(t.Context())
	var attack sync.WaitGroup
	var waiting atomic.Int64
	defer attack.Wait()
	defer end()
	for _, m := range members {
		for range strangers {
			attack.Go(func() {
				for ctx.Err() == nil {
					var d net.Dialer
					if c, err := d.DialContext(ctx, "tcp", m.Addr); err == nil {
						waiting.Add(1)
						stop := context.AfterFunc(ctx, func() { c.Close() })
						_, _ = c.Read(make([]byte, 1)) // until it is closed
						stop()
						c.Close()
					}
					time.Sleep(250 * time.Millisecond) // some hundred a second all the same
				}
			})
		}
	}
	for waiting.Load() < lobby.Max*int64(len(members)) {
		time.Sleep(time.Millisecond)
	}
	var all []*peers.Backend
	for i, l := range listeners {
		id := members[i].ID
		all = append(all, open(t, peers.Options{ID: id, Members: members, Dir: filepath.Join(dir, string(id)),
			Lease: 3 * time.Second, Listener: l, TLS: authority.member(t, string(id))}))
	}
	within, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := all[0].Acquire(within, claim("x", "a", 0)); err != nil {
		t.Fatalf("nobody leads: %v", err)
	}
}
