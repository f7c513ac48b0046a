package peers_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
)

// deafTo returns an address through which another one is reached. While deaf is
// locked nothing comes back.
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

// TestNobodyElseLeadsWithinALease that was granted, also by an Elector that takes
// nothing off it: the clocks of this test have one rate. The leader, which does not
// receive any more, steps down for the others, which do.
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
	next := make(chan election.Instant, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		if _, err := g[1].Acquire(ctx, claim("x", "b", 0)); err == nil {
			next <- election.Now()
		}
	}()
	await(t, g[0], "x", func(v election.View, _ error) bool { return slices.Equal(v.Candidates, []string{"b"}) })
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
