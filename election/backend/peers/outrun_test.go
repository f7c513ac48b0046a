package peers

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// A leader that learns of a higher term tells all members at once that its
// promises are void, while its holder, whose lease lasts, still works. (How such
// a term comes about: algo/raft/outrun_test.go.)
func TestNobodyElseLeadsWhileAGrantLasts(t *testing.T) {
	var members []Member
	var listeners []net.Listener
	for _, id := range []algo.ID{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners, members = append(listeners, l), append(members, Member{ID: id, Addr: l.Addr().String()})
	}
	dir := t.TempDir()
	var g []*Backend
	for i, m := range members {
		b, err := start(Options{ID: m.ID, Members: members, Dir: filepath.Join(dir, string(m.ID)), Lease: 3 * time.Second, Listener: listeners[i]}, thisMachine(osfs.New()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		g = append(g, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	claim := func(id string) election.Claim {
		return election.Claim{Election: "jobs", ID: id, Nonce: "0000000000000000000000000000000" + id[:1], Lease: 3 * time.Second}
	}
	grant, err := g[0].Acquire(ctx, claim("a"))
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan election.Grant, 1)
	go func() {
		if one, err := g[1].Acquire(ctx, claim("b")); err == nil {
			second <- one
		}
	}()
	if grant, err = g[0].Renew(ctx, grant); err != nil {
		t.Fatal(err)
	}
	until := grant.Sent.Add(grant.Lease)
	g[0].post(func() { // c answers a heartbeat with a higher term
		g[0].contest("jobs").step(algo.Received{From: "c",
			Message: algo.Message{Type: algo.HeartbeatReply, Term: uint64(grant.Token) + 1}})
	})
	select {
	case one := <-second:
		if now := clock.Now(); now < until {
			t.Errorf("b leads with token %d, %v before the grant of a with token %d runs out, which was not released",
				one.Token, until.Sub(now).Round(time.Millisecond), grant.Token)
		}
	case <-ctx.Done():
		t.Fatal("nobody was elected")
	}
}
