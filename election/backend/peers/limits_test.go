package peers_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
)

// lostLinks counts the connections that end, as members report them to their logs.
func lostLinks(lost *atomic.Int64) func(*peers.Options) {
	return func(o *peers.Options) {
		o.Log = func(line string) {
			if strings.HasPrefix(line, "lost ") {
				lost.Add(1)
			}
		}
	}
}

// One member has more waiting candidates in an election than the others take in one frame.
// Those beyond the limit are refused until there is space, and nothing else suffers.
func TestLineThatIsTooLongHoldsUpNoOtherElection(t *testing.T) {
	const candidates = 4000 // of about 1,260 bytes each: more than 4 MiB
	var lost atomic.Int64
	g := found(t, 3, func(o *peers.Options) {
		lostLinks(&lost)(o)
		o.Lease = 20 * time.Second // 4000 candidates on a busy core
	})
	for _, b := range g {
		await(t, b, "x", whole)
	}
	leader := acquire(t, g[1], claim("x", "leader", 0))
	other := acquire(t, g[0], claim("y", "other", 0))
	lost.Store(0)
	id := strings.Repeat("<", 200) // JSON makes six bytes of each
	fit := peers.FitWaiting(claim("x", id, 0))
	if fit < 800 || fit > candidates-1000 {
		t.Fatalf("%d have space", fit)
	}
	ended := make(chan error, candidates)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	leave := make(chan struct{}) // closed when one candidate is to leave
	for i := range candidates {
		c := claim("x", id, 0)
		go func() {
			within := ctx
			if i == 0 {
				var end context.CancelFunc
				within, end = context.WithCancel(ctx)
				go func() {
					<-leave
					end()
				}()
			}
			_, err := g[0].Acquire(within, c)
			ended <- err
		}()
		if i == 0 {
			await(t, g[1], "x", func(v election.View, _ error) bool { return v.Waits(id) })
		}
	}
	waits := func(n int) func(election.View, error) bool {
		return func(v election.View, _ error) bool { return len(v.Waiters) == n }
	}
	for refused := range candidates - fit {
		err := <-ended
		if !errors.Is(err, election.ErrNoSpace) || errors.Is(err, election.ErrPermanent) {
			t.Errorf("%d were refused, and then: %v; %d connections ended", refused, err, lost.Load())
			break
		}
	}
	await(t, g[1], "x", waits(fit))
	await(t, g[2], "x", waits(fit))
	for range 3 {
		var err error
		if leader, err = g[1].Renew(t.Context(), leader); err != nil {
			t.Error(err)
		}
		if other, err = g[0].Renew(t.Context(), other); err != nil {
			t.Error(err)
		}
	}
	acquire(t, g[0], claim("z", "late", 0))
	if n := lost.Load(); n > 0 || g[0].Links() != 2 {
		t.Errorf("%d connections ended, %d are left", n, g[0].Links())
	}
	if _, err := g[0].Acquire(ctx, claim("x", id, 0)); !errors.Is(err, election.ErrNoSpace) {
		t.Errorf("one more: %v", err)
	}
	close(leave)
	await(t, g[0], "x", waits(fit-1))
	go func() { _, _ = g[0].Acquire(ctx, claim("x", "there is space", 0)) }()
	await(t, g[1], "x", func(v election.View, _ error) bool { return v.Waits("there is space") })
}

// Texts that a caller passes are no longer than those of candidates.
func TestTextsOfCallersAreBounded(t *testing.T) {
	var lost atomic.Int64
	g := found(t, 3, func(o *peers.Options) {
		lostLinks(&lost)(o)
		patient(o)
	})
	for _, b := range g {
		await(t, b, "x", whole)
	}
	held := acquire(t, g[1], claim("x", "leader", 0))
	await(t, g[0], "x", func(v election.View, err error) bool { return v.Leader == "leader" && err == nil })
	lost.Store(0)
	most, long := strings.Repeat("x", 200), strings.Repeat("x", 5<<20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, r := range []election.Request{{By: long}, {Transfer: long}, {ID: long}, {By: most + "x"}} {
		if err := g[0].Ask(ctx, "x", r); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("By of %d bytes, Transfer of %d: %.200v", len(r.By), len(r.Transfer), err)
		}
	}
	if err := g[0].Ask(ctx, "x", election.Request{By: most, Transfer: most}); err != nil {
		t.Error(err)
	}
	described := claim("x", "a", 0)
	described.Metadata = []byte(long)
	unlike := claim("x", "a", 0)
	unlike.Nonce = long
	for _, c := range []election.Claim{claim("x", long, 0), described, unlike} {
		if _, err := g[0].Acquire(ctx, c); !errors.Is(err, election.ErrInvalid) || !errors.Is(err, election.ErrPermanent) {
			t.Errorf("a claim that is too long: %.200v", err)
		}
	}
	late := claim("x", "late", 0)
	late.Warm = func(context.Context) error { return errors.New(long) }
	go func() { _, _ = g[0].Acquire(ctx, late) }()
	await(t, g[1], "x", func(v election.View, _ error) bool { return v.Waits("late") })
	if err := g[1].Nominate(ctx, held, "late"); err == nil || len(err.Error()) > 5000 {
		t.Errorf("nominated: %.200v", err)
	}
	if n := lost.Load(); n > 0 || g[0].Links() != 2 {
		t.Errorf("%d connections ended, %d are left", n, g[0].Links())
	}
}

// An observer that came when the table of elections was full sees its election once there
// is space and somebody leads it.
func TestObserverOfAFullMemberSeesTheElectionOnceThereIsSpace(t *testing.T) {
	b := found(t, 1, nil)[0]
	b.Fill()
	refused, seen := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		defer close(seen)
		for view, err := range b.Observe(ctx, "late") {
			switch {
			case err != nil:
				close(refused) // only once: the error stays the same while there is no space
			case view.Leader == "leader":
				return
			}
		}
	}()
	<-refused
	b.Empty()
	acquire(t, b, claim("late", "leader", 0))
	<-seen
	if ctx.Err() != nil {
		t.Error("somebody leads, and the observer still has the error of before")
	}
}

// A member that has no candidates in an election forgets those of others that no longer wait.
func TestMemberForgetsTheWaitersOfOthers(t *testing.T) {
	g := found(t, 3, patient)
	for _, b := range g {
		await(t, b, "x", whole)
	}
	acquire(t, g[0], claim("x", "leader", 0))
	const waiters = 100
	for i := range waiters {
		id := "waiter " + strconv.Itoa(i)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = g[1].Acquire(ctx, claim("x", id, 0))
		}()
		await(t, g[2], "x", func(v election.View, _ error) bool { return v.Waits(id) })
		cancel()
		<-ended
	}
	for i, b := range g {
		await(t, b, "x", func(v election.View, _ error) bool { return len(v.Waiters) == 0 })
		if n := b.Seen("x"); n > waiters/2 {
			t.Errorf("member %d remembers %d of %d waiters, though none waits", i, n, waiters)
		}
	}
}
