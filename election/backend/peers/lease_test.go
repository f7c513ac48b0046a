package peers_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// deafTo returns an address that leads to another one. While deaf is locked, nothing comes back.
func deafTo(t *testing.T, addr string, deaf *sync.RWMutex) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(far, near)
				_ = far.Close()
			}()
			go func() {
				_, _ = io.Copy(hearing{near, deaf}, far)
				_ = near.Close()
			}()
		}
	}()
	return l.Addr().String()
}

type hearing struct {
	net.Conn
	deaf *sync.RWMutex
}

func (h hearing) Write(b []byte) (int, error) {
	h.deaf.RLock()
	defer h.deaf.RUnlock()
	return h.Conn.Write(b)
}

// TestNobodyElseLeadsWithinALease that was granted, even for an Elector that deducts
// nothing from it: the clocks of this test have one rate. The leader no longer receives
// anything, and steps down in favour of members that do.
func TestNobodyElseLeadsWithinALease(t *testing.T) {
	var deaf sync.RWMutex
	g := found(t, 3, func(o *peers.Options) {
		o.Lease = 5 * time.Second
		if o.ID == "a" {
			o.Members = slices.Clone(o.Members)
			for i, m := range o.Members[1:] {
				o.Members[i+1] = peers.Member{ID: m.ID, Addr: deafTo(t, m.Addr, &deaf)}
			}
		}
	})
	last := acquire(t, g[0], claim("x", "a", 0))
	next := make(chan clock.Instant, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		if _, err := g[1].Acquire(ctx, claim("x", "b", 0)); err == nil {
			next <- clock.Now()
		}
	}()
	await(t, g[0], "x", func(v election.View, _ error) bool { return slices.Equal(v.WaiterIDs(), []string{"b"}) })
	deaf.Lock()
	defer deaf.Unlock()
	for {
		select {
		case <-last.News:
			if renewed, err := g[0].Renew(ctx, last); err == nil {
				last = renewed
			}
		case at := <-next:
			if early := last.Sent.Add(last.Lease).Sub(at); early > 0 {
				t.Errorf("the next one was elected %v before the end of the lease", early)
			}
			return
		case <-ctx.Done():
			t.Fatal("nobody was elected")
		}
	}
}

// TestLeaseIsShortenedByStartingOneAfterTheOther (peers-P9): a still leads with the old
// lease, and the others, which it no longer lets in, are a quorum.
func TestLeaseIsShortenedByStartingOneAfterTheOther(t *testing.T) {
	const long, short = 5 * time.Second, time.Second
	g := newLate(t)
	a, b, c := g.start("a", long), g.start("b", long), g.start("c", long)
	first := acquire(t, a, claim("x", "a", 0))
	for _, one := range []*peers.Backend{b, c} {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c = g.start("c", short) // b is away for longer than c
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	b = g.start("b", short)
	g.start("c", short)
	second := acquire(t, b, claim("x", "b", 0))
	if left := first.Sent.Add(first.Lease).Sub(clock.Now()); left > 0 || second.Token <= first.Token {
		t.Errorf("a has token %d for another %v, and b leads with token %d", first.Token, left, second.Token)
	}

	// The longer lease is in the past now, and the next start need not wait for it.
	for _, id := range []string{"b", "c"} {
		awaittest.Until(t, "the state of "+id+" has the shorter one", func() bool {
			text, err := os.ReadFile(filepath.Join(g.dir, id, "peers.json"))
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Contains(text, []byte(`"leaseMs":1000`))
		})
	}
}
