package record

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// directed is a store that reports no changes, and whose reads a test delays.
type directed struct {
	*Memory
	read func(ctx context.Context) error // called when the record was read; nil for nothing
}

func (d *directed) Watches() bool { return false }

func (d *directed) Read(ctx context.Context, name string) (Record, string, error) {
	record, version, err := d.Memory.Read(ctx, name)
	if read := d.read; read != nil {
		err = errors.Join(err, read(ctx))
	}
	return record, version, err
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// scene is a store and a process that uses it.
type scene struct {
	*testing.T
	clock clock.Clock
	store *directed
	b     *Backend
	last  int
}

func newScene(t *testing.T) *scene {
	c := electiontest.VirtualClock(1)
	s := &scene{T: t, clock: c, store: &directed{Memory: NewMemory(c)}}
	s.b = s.process()
	return s
}

func (s *scene) process() *Backend {
	b := New(s.store, Options{Clock: s.clock})
	s.Cleanup(func() { _ = b.Close() })
	return b
}

const sceneLease = 30 * time.Second

func (s *scene) claim(id string) election.Claim {
	s.last++
	return election.Claim{Election: "x", ID: id, Nonce: fmt.Sprintf("%032d", s.last), Lease: sceneLease}
}

// lead waits until a claim leads, and fails if that takes longer than the limit.
func (s *scene) lead(b *Backend, one election.Claim, limit time.Duration) election.Grant {
	s.Helper()
	began := time.Now()
	grant, err := b.Acquire(s.Context(), one)
	if took := time.Since(began); err != nil || took > limit {
		s.Fatalf("%s leads after %v: %v", one.ID, took, err)
	}
	return grant
}

// TestCloseEndsARequestThatHangs with ErrClosed, and at once.
func TestCloseEndsARequestThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.store.read = hang
		ended := make(chan error, 1)
		go func() { _, err := s.b.History(s.Context(), "x"); ended <- err }()
		synctest.Wait()
		began := time.Now()
		_ = s.b.Close()
		if err := <-ended; !errors.Is(err, election.ErrClosed) || time.Since(began) > 0 {
			s.Errorf("it ends %v after Close with %v", time.Since(began), err)
		}
	})
}

// TestReleaseThatWasGivenUpIsForgottenInTheEnd: once a later read shows that the claim has gone.
func TestReleaseThatWasGivenUpIsForgottenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		grant := s.lead(s.b, s.claim("a"), 0)
		s.store.read = func(ctx context.Context) error { <-ctx.Done(); return nil } // too late to be of use
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.b.Release(ctx, grant); err == nil {
			s.Fatal("it was released though the store has not answered in time")
		}
		s.store.read = nil
		s.lead(s.process(), s.claim("b"), 2*sceneLease)
		if _, err := s.b.History(s.Context(), "x"); err != nil {
			s.Fatal(err)
		}
		if known, stale := s.b.memories["x"].Claims(); known != 0 || stale != 0 {
			s.Errorf("%d claims are known, %d stale, after another one has led", known, stale)
		}
	})
}

// TestReadThatWasOvertakenDelaysNobody: a read counts from when it was sent. Its answer, which
// comes late and is old, does not mean that the store has gone back.
func TestReadThatWasOvertakenDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		other := s.process()
		if err := other.Release(s.Context(), s.lead(other, s.claim("before"), 0)); err != nil {
			s.Fatal(err)
		}
		look := func() {
			if _, err := s.b.History(s.Context(), "x"); err != nil {
				s.Error(err)
			}
		}
		late := make(chan struct{})
		s.store.read = func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		go func() { look(); close(late) }()
		synctest.Wait()
		s.store.read = nil
		time.Sleep(time.Second)
		grant := s.lead(other, s.claim("leader"), 0)
		look()
		<-late
		if err := other.Release(s.Context(), grant); err != nil {
			s.Fatal(err)
		}
		s.lead(s.b, s.claim("next"), time.Second)
	})
}

// TestNominationThatRanOutOfTimeIsWithdrawn: the context that has ended is not that of the
// withdrawal.
func TestNominationThatRanOutOfTimeIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		grant := s.lead(s.b, s.claim("a"), 0)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.b.Nominate(ctx, grant, "nobody"); err == nil {
			s.Fatal("nobody is ready")
		}
		if record, _, err := s.store.Read(s.Context(), "x"); err != nil || record.Wanted != "" {
			s.Errorf("%q is still wanted, %v", record.Wanted, err)
		}
	})
}

// watched is a store that reports changes.
type watched struct{ *directed }

func (watched) Watches() bool { return true }

// TestHolderIsToldOfItsLossByTheWatch, long before it renews.
func TestHolderIsToldOfItsLossByTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		b := New(watched{s.store}, Options{Clock: s.clock})
		defer b.Close()
		grant := s.lead(b, s.claim("a"), 0)
		synctest.Wait()
		record, version, err := s.store.Read(s.Context(), "x")
		record.Holder, record.Nonce, record.Token = "b", "b", record.Token+1 // an operator restores a copy
		if err == nil {
			_, err = s.store.Write(s.Context(), "x", record, version)
		}
		if err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-grant.Lost:
		default:
			s.Error("it is not told")
		}
	})
}

// deafened is a store that reports no changes, but errors.
type deafened struct{ *directed }

func (deafened) Wait(context.Context, string, string, time.Duration) error { return errDeaf }

func (deafened) WaitTold(context.Context, string, string, time.Duration) (News, error) {
	return News{}, errDeaf
}

var errDeaf = errors.New("no watch")

// TestWaiterPausesWhereItCannotWait: the store is in trouble, and many may wait.
func TestWaiterPausesWhereItCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.lead(s.b, s.claim("a"), 0)
		b := New(deafened{s.store}, Options{Clock: s.clock})
		defer b.Close()
		ctx, cancel := context.WithTimeout(s.Context(), sceneLease/2)
		defer cancel()
		reads := 0
		s.store.read = func(context.Context) error {
			if reads++; reads > 1000 {
				cancel()
			}
			return nil
		}
		if _, err := b.Acquire(ctx, s.claim("b")); err == nil || reads > 500 {
			s.Errorf("%d reads in half of a lease: %v", reads, err)
		}
	})
}

// TestReleaseEndsTheWarmUp of a claim that waits.
func TestReleaseEndsTheWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		grant := s.lead(s.b, s.claim("a"), 0)
		one, other := s.claim("b"), s.process()
		warms, ended := make(chan struct{}), make(chan struct{})
		one.Warm = func(ctx context.Context) error {
			close(warms)
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(s.Context())
		go func() { _, _ = other.Acquire(ctx, one) }()
		go func() { _ = s.b.Nominate(ctx, grant, "b") }()
		<-warms
		cancel()
		if err := other.Release(s.Context(), election.Grant{Claim: one}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-ended:
		default:
			s.Error("it warms up after its release")
		}
	})
}
