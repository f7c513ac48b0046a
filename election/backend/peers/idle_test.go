package peers

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
)

var idleNames = flag.Int("names", 4000, "how many elections TestElectionsThatAreOverAreForgotten holds")

// passing is three members on disks in memory that hold one election after the other.
type passing struct {
	t       *testing.T
	disk    *vfs.Mem
	members []Member
	keep    int
	mu      sync.RWMutex // held to write while members change
	b       []*Backend
}

func newPassing(t *testing.T, keep int) *passing {
	p := &passing{t: t, disk: vfs.NewMem(), keep: keep, b: make([]*Backend, 3)}
	listeners := make([]net.Listener, 3)
	for i := range p.b {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
		p.members = append(p.members, Member{ID: algo.ID(rune('a' + i)), Addr: l.Addr().String()})
	}
	for i, l := range listeners {
		p.start(i, l)
	}
	t.Cleanup(func() {
		for _, b := range p.b {
			_ = b.Close()
		}
	})
	return p
}

func (p *passing) start(i int, l net.Listener) {
	b, err := start(Options{ID: p.members[i].ID, Members: p.members, Dir: "/" + string(p.members[i].ID), Lease: 300 * time.Millisecond,
		Listener: l}, thisMachine(p.disk))
	if err != nil {
		p.t.Fatal(err)
	}
	_ = b.call(b.life, func() { b.idleMax = p.keep })
	p.b[i] = b
}

// restart closes some members, or all of them, and starts them with what is on disk.
func (p *passing) restart(which ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range which {
		if err := p.b[i].Close(); err != nil {
			p.t.Error(err)
		}
	}
	for _, i := range which {
		p.start(i, nil)
	}
}

// once holds an election on one of the members, and returns the token.
func (p *passing) once(name string, i int) election.Token {
	p.mu.RLock()
	defer p.mu.RUnlock()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	b := p.b[i%len(p.b)]
	grant, err := b.Acquire(ctx, election.Claim{Election: name, ID: "me", Nonce: fmt.Sprintf("%032x", i), Lease: 300 * time.Millisecond})
	if err != nil {
		p.t.Errorf("%s: %v", name, err)
		return 0
	}
	if err := b.Release(ctx, grant); err != nil {
		p.t.Error(err)
	}
	return grant.Token
}

// held returns how much a member holds in memory and on disk.
func (p *passing) held(i int) (contests, numbers int, bytes int64, floor uint64) {
	b := p.b[i]
	_ = b.call(b.life, func() {
		contests, floor = len(b.contests), b.head.Floor
		for _, l := range b.links {
			numbers = max(numbers, len(l.numbers))
		}
	})
	info, err := p.disk.Stat("/" + string(p.members[i].ID) + "/" + stateName)
	if err != nil {
		p.t.Error(err)
	}
	return contests, numbers, info.Size, floor
}

// Elections come and go without end, for example one for each job. What members hold
// is bounded in memory, on disk and for each connection; and the tokens of an
// election grow although all members have forgotten it, also across restarts.
func TestElectionsThatAreOverAreForgotten(t *testing.T) {
	keep, lanes := 64, 24
	if *idleNames >= 50_000 {
		keep = idleMax
	}
	p := newPassing(t, keep)
	const again = 40 // elections that come back: the first of each lane, on other members
	first := make(map[string]election.Token)
	for i := range again {
		name := fmt.Sprintf("back/%d", i)
		for range 2 + i%3 {
			first[name] = p.once(name, i)
		}
	}
	began := time.Now()
	for round := range 4 {
		var wait sync.WaitGroup
		for lane := range lanes {
			wait.Go(func() {
				for i := lane; i < *idleNames/4 && !t.Failed(); i += lanes {
					p.once(fmt.Sprintf("jobs/%d/%d", round, i), i)
				}
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
		for i := range p.b {
			contests, numbers, bytes, floor := p.held(i)
			limit := time.Now().Add(30 * time.Second)
			for n := 0; contests > 2*keep+10*lanes && time.Now().Before(limit); n++ { // until the last ones are two leases old
				p.once(fmt.Sprintf("more/%d/%d/%d", round, i, n), n)
				awaittest.RealTime(10*time.Millisecond, "they come more slowly than they are forgotten")
				contests, numbers, bytes, floor = p.held(i)
			}
			var heap runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&heap)
			t.Logf("%d names, %v: %s holds %d elections, %d numbers, %d bytes on disk, floor %d; heap %d KiB", (round+1)**idleNames/4,
				time.Since(began).Round(time.Millisecond), p.members[i].ID, contests, numbers, bytes, floor, heap.HeapAlloc>>10)
			if contests > 2*keep+10*lanes || numbers > 8*keep+100*lanes || bytes > 3*logBytesMax || floor == 0 {
				t.Error("that is not bounded, or nothing was forgotten")
			}
		}
		switch round {
		case 0:
			p.restart(1)
		case 1:
			p.restart(0, 1, 2)
		}
		for i := range again {
			name := fmt.Sprintf("back/%d", i)
			token := p.once(name, i+round)
			if token <= first[name] {
				t.Errorf("%s had the token %d, and has %d now", name, first[name], token)
			}
			first[name] = token
		}
	}
}

// An election that is observed is kept, and observing many elections uses nothing up.
func TestElectionsThatAreLookedAtAreKeptAndCostNothing(t *testing.T) {
	p := newPassing(t, 16)
	token := p.once("seen", 0)
	ctx, cancel := context.WithCancel(t.Context())
	var views []election.View
	seen, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		for v := range p.b[1].Observe(ctx, "seen") {
			if views = append(views, v); v.Token == token && v.Leader == "" {
				select {
				case seen <- struct{}{}:
				default:
				}
			}
		}
	}()
	<-seen
	for i := range 2000 {
		for range p.b[1].Observe(t.Context(), fmt.Sprintf("looked/%d", i)) {
			break
		}
	}
	for i := range 100 {
		p.once(fmt.Sprintf("jobs/%d", i), i)
	}
	if contests, _, _, _ := p.held(1); contests > 200 {
		t.Errorf("%d elections are held that were looked at", contests)
	}
	cancel()
	<-over
	if v := views[len(views)-1]; v.Token != token {
		t.Errorf("the view went back from the token %d to %+v", token, v)
	}
}
