package record_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// latecomer is a store whose watch reports a write before the write is answered.
type latecomer struct {
	*record.Memory
	writes atomic.Int64
	delay  time.Duration
}

func (l *latecomer) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	l.writes.Add(1)
	after, err := l.Memory.Write(ctx, name, r, version)
	time.Sleep(l.delay)
	return after, err
}

// TestRequestThatStaysIsNewsOnce: a transfer to nobody stays in the record for as long as the
// leadership lasts, and is no reason to renew without pause.
func TestRequestThatStaysIsNewsOnce(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := electiontest.VirtualClock(1)
			store := &latecomer{Memory: record.NewMemory(c), delay: delay}
			b := record.New(store, record.Options{Clock: c})
			refused := make(chan struct{}, 10)
			e, err := election.New(b, "jobs", election.Options{Once: true, ID: "a", Lease: time.Second, Clock: c, OnEvent: func(e election.Event) {
				if e.Kind == election.EventNominated && e.Err != nil {
					refused <- struct{}{}
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			led, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error { close(led); <-ctx.Done(); return nil })
			}()
			<-led
			for _, nobody := range []string{"nobody", "nobody either"} {
				asked := time.Now()
				if err := b.Ask(ctx, "jobs", election.Request{Transfer: nobody}); err != nil {
					t.Fatal(err)
				}
				for wanted := ""; wanted != nobody; {
					time.Sleep(time.Millisecond)
					now, _, _ := store.Read(ctx, "jobs")
					wanted = now.Wanted
				}
				if took := time.Since(asked); took > 20*time.Millisecond {
					t.Errorf("the leader learned of %q %v after it was asked, by its next renewal", nobody, took)
				}
				<-refused
				before := store.writes.Load()
				time.Sleep(10 * time.Second)
				if n := store.writes.Load() - before; n > 50 {
					t.Errorf("answers %v after their news: %d writes in 10 leases after the request was refused", delay, n)
				}
			}
			cancel()
			<-ended
		})
	}
}

// deafOnce is a store whose first waits for a change fail.
type deafOnce struct {
	*record.Memory
	fails atomic.Int64
}

func (f *deafOnce) WaitTold(ctx context.Context, name, version string, limit time.Duration) (record.News, error) {
	if f.fails.Add(-1) >= 0 {
		return record.News{}, errors.New("the connection is lost")
	}
	return f.Memory.WaitTold(ctx, name, version, limit)
}

// TestRequestsAreNewsAfterAWatchThatFailed: for the rest of its leadership, a leader is told of
// requests at once, and not only with its next renewal.
func TestRequestsAreNewsAfterAWatchThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := &deafOnce{Memory: record.NewMemory(c)}
		store.fails.Store(2)
		b := record.New(store, record.Options{Clock: c})
		e, err := election.New(b, "jobs", election.Options{Once: true, ID: "a", Lease: time.Hour, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		led, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- e.Run(t.Context(), func(ctx context.Context, _ election.Leadership) error { close(led); <-ctx.Done(); return nil })
		}()
		<-led
		time.Sleep(time.Minute) // of a quarter of an hour between renewals
		asked := time.Now()
		if err := b.Ask(t.Context(), "jobs", election.Request{}); err != nil {
			t.Fatal(err)
		}
		<-ended
		if took := time.Since(asked); took > time.Second {
			t.Errorf("the leader was told after %v", took)
		}
	})
}

// TestRequestForALeaderThatHasRunOutIsRefused: the backend that has shown that nobody leads
// refuses it, although the record still names the last leader.
func TestRequestForALeaderThatHasRunOutIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := record.NewMemory(c)
		dead := record.New(store, record.Options{Clock: c})
		if _, err := dead.Acquire(t.Context(), claim("dead")); err != nil { // and never renews
			t.Fatal(err)
		}
		_ = dead.Close()
		b := record.New(store, record.Options{Clock: c})
		defer b.Close()
		if err := b.Ask(t.Context(), "e", election.Request{}); err != nil {
			t.Errorf("a request for one that may be alive: %v", err)
		}
		for view, err := range b.Observe(t.Context(), "e") {
			if err != nil {
				t.Fatal(err)
			}
			if view.Leader == "" {
				break
			}
		}
		if err := b.Ask(t.Context(), "e", election.Request{}); !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("nobody leads, and the request to resign was answered %v", err)
		}
	})
}
