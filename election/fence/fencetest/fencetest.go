// Package fencetest tests that a fenced resource refuses zombies.
//
// It runs the same tests on any resource that holds a number: a late message of an earlier leader
// while the current one is alive, and leaders that are replaced again and again without knowing
// it and that pause at random between reading and writing. None of their updates may be lost.
package fencetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// Resource is a number behind a fence, initially zero. Its functions are called by several
// goroutines.
type Resource struct {
	// Claim closes the resource to older tokens, as a new leader does, and
	// returns the number.
	Claim func(ctx context.Context, token election.Token) (int, error)
	// Write replaces the number, whatever it was.
	Write func(ctx context.Context, token election.Token, value int) error
	// Read returns the number without a token.
	Read func(ctx context.Context) (int, error)
}

// Leaders is how many leaders replace each other in a run.
const Leaders = 40

// patience is the longest time that a run may take.
const patience = 2 * time.Minute

// Run runs all tests, each with a resource of its own.
func Run(t *testing.T, open func(t *testing.T) Resource) {
	tests := []struct {
		name string
		test func(context.Context, *testing.T, Resource)
	}{
		{"LateMessageIsRefusedThoughTheLeaderIsAlive", testLate},
		{"ZombieThatReadBeforeIsRefused", testZombie},
		{"NoTokenIsRefused", testNoToken},
		{"NoUpdateIsLostUnderPauses", testPauses},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			test.test(ctx, t, open(t))
		})
	}
}

// scenario-E13: a message with token 33 that comes after one with 34.
func testLate(ctx context.Context, t *testing.T, r Resource) {
	claim(ctx, t, r, 33, 0)
	accepted(t, r.Write(ctx, 33, 1))
	claim(ctx, t, r, 34, 1)
	accepted(t, r.Write(ctx, 34, 2))
	refused(t, r.Write(ctx, 33, 100))
	accepted(t, r.Write(ctx, 34, 3))
	refused(t, r.Write(ctx, 1, 200))
	holds(ctx, t, r, 3)
}

// A new leader that has not written anything yet has closed the resource nevertheless.
func testZombie(ctx context.Context, t *testing.T, r Resource) {
	claim(ctx, t, r, 7, 0)
	claim(ctx, t, r, 9, 0)
	refused(t, r.Write(ctx, 7, 1))
	if _, err := r.Claim(ctx, 8); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a claim with an older token: %v", err)
	}
	accepted(t, r.Write(ctx, 9, 5))
	accepted(t, r.Write(ctx, 9, 6))
	holds(ctx, t, r, 6)
}

func testNoToken(ctx context.Context, t *testing.T, r Resource) {
	if err := r.Write(ctx, 0, 1); err == nil {
		t.Error("a write without a token was accepted")
	}
	claim(ctx, t, r, 1, 0)
	if err := r.Write(ctx, 0, 1); err == nil {
		t.Error("a write without a token was accepted after one with token 1")
	}
	holds(ctx, t, r, 0)
}

// scenario-E01: each leader reads once and then counts on from memory until it is refused.
// It does not learn that others lead.
func testPauses(ctx context.Context, t *testing.T, r Resource) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	written, stale := 0, 0
	var leaders sync.WaitGroup
	for token := election.Token(1); token <= Leaders; token++ {
		random := rand.New(rand.NewPCG(seed, uint64(token)))
		worked := make(chan struct{})
		leaders.Go(func() {
			n, err := lead(ctx, r, token, random, worked)
			mu.Lock()
			defer mu.Unlock()
			written += n
			switch {
			case errors.Is(err, fence.ErrStale):
				stale++
			case err != nil:
				t.Errorf("token %d: %v", token, err)
			}
		})
		<-worked // from here on the leader has a successor
	}
	leaders.Wait()
	holds(ctx, t, r, written)
	if stale != Leaders-1 {
		t.Errorf("%d of %d leaders were refused in the end, expected all but the last", stale, Leaders)
	}
}

// lead returns how many of its writes were accepted. The last leader writes ten times.
func lead(ctx context.Context, r Resource, token election.Token, random *rand.Rand, worked chan<- struct{}) (int, error) {
	head := 1 + random.IntN(5) // writes before the successor comes
	once := sync.OnceFunc(func() { close(worked) })
	defer once()
	value, err := r.Claim(ctx, token)
	for n := 0; ; n++ {
		if err != nil || token == Leaders && n == 10 {
			return n, err
		}
		if n >= head {
			once()
			time.Sleep(time.Duration(random.Int64N(int64(3 * time.Millisecond)))) // the pause under test
		}
		value++
		if err = r.Write(ctx, token, value); err != nil {
			return n, err
		}
	}
}

func claim(ctx context.Context, t *testing.T, r Resource, token election.Token, want int) {
	t.Helper()
	if value, err := r.Claim(ctx, token); err != nil || value != want {
		t.Fatalf("claim with token %d: %d, %v; expected %d", token, value, err, want)
	}
}

func accepted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("the leader was refused: %v", err)
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("a stale token was not refused as stale: %v", err)
	}
}

func holds(ctx context.Context, t *testing.T, r Resource, want int) {
	t.Helper()
	if value, err := r.Read(ctx); err != nil || value != want {
		t.Errorf("the number is %d (%v), expected %d", value, err, want)
	}
}
