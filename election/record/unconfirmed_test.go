package record_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// isolated is a primary without its replica: a write takes effect here and is answered with an
// error, as by Redis with Replicas (WAIT answers 0) and by PostgreSQL with a synchronous
// standby that is gone (the wait is cancelled).
type isolated struct {
	*record.Memory
	mu    sync.Mutex
	until time.Time // when the replica comes back
}

func (i *isolated) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	after, err := i.Memory.Write(ctx, name, r, version)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil && time.Now().Before(i.until) {
		return "", errors.New("0 of 1 replicas have confirmed it")
	}
	return after, err
}

// TestWriteThatIsNotAcknowledgedElectsNobody: it is not enough that a read shows the claim as
// the holder (record-R7). When the store acknowledges again, the claim leads, with a lease that
// counts from the acknowledged write.
func TestWriteThatIsNotAcknowledgedElectsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		back := time.Now().Add(20 * time.Second)
		store := &isolated{Memory: record.NewMemory(c), until: back}
		b := record.New(store, record.Options{Clock: c})
		defer b.Close()
		grant, err := b.Acquire(t.Context(), claim("a"))
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().Before(back) {
			t.Errorf("granted %v before any write was acknowledged", time.Until(back))
		}
		if age := c.Now().Sub(grant.Sent); age > time.Second {
			t.Errorf("the grant counts from %v ago, when nothing was acknowledged", age)
		}
	})
}

// silent is a store whose connection is dead: requests end only with their context. After some
// requests, those on a new connection are answered.
type silent struct {
	*record.Memory
	mu   sync.Mutex
	dead int // number of requests that get no answer
}

func (s *silent) answer(ctx context.Context) error {
	s.mu.Lock()
	dead := s.dead > 0
	if dead {
		s.dead--
	}
	s.mu.Unlock()
	if !dead {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) Read(ctx context.Context, name string) (record.Record, string, error) {
	if err := s.answer(ctx); err != nil {
		return record.Record{}, "", err
	}
	return s.Memory.Read(ctx, name)
}

func (s *silent) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if err := s.answer(ctx); err != nil {
		return "", err
	}
	return s.Memory.Write(ctx, name, r, version)
}

func (s *silent) WaitTold(ctx context.Context, name, version string, limit time.Duration) (record.News, error) {
	if err := s.answer(ctx); err != nil {
		return record.News{}, err
	}
	return s.Memory.WaitTold(ctx, name, version, limit)
}

// TestRequestWithoutAnAnswerCostsAQuarterOfTheLease, whatever the request is (record-R8).
func TestRequestWithoutAnAnswerCostsAQuarterOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		inner := record.NewMemory(c)
		dead := record.New(inner, record.Options{Clock: c})
		if _, err := dead.Acquire(t.Context(), claim("dead")); err != nil { // and never renews
			t.Fatal(err)
		}
		_ = dead.Close()
		store := &silent{Memory: inner}
		b := record.New(store, record.Options{Clock: c})
		defer b.Close()
		elected := make(chan election.Grant)
		go func() {
			grant, err := b.Acquire(t.Context(), claim("standby"))
			if err != nil {
				t.Error(err)
			}
			elected <- grant
		}()
		time.Sleep(30 * time.Second)
		store.mu.Lock()
		store.dead = 3
		store.mu.Unlock()
		began := time.Now()
		grant := <-elected
		// The rest of the dead one's lease, and three requests of 10 s, which is the longest
		// that one may take, with the pauses between them.
		if took := time.Since(began); took > 75*time.Second {
			t.Errorf("elected %v after the connection died, with a lease of a minute", took)
		}
		synctest.Wait() // requests under way have their answers
		store.mu.Lock()
		store.dead = 1
		store.mu.Unlock()
		began = time.Now()
		if err := b.Release(t.Context(), grant); err == nil {
			t.Error("a release without an answer is none")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a request of a release took %v", took)
		}
		if err := b.Release(t.Context(), grant); err != nil {
			t.Error(err)
		}
		synctest.Wait() // requests under way have their answers
		store.mu.Lock()
		store.dead = 1
		store.mu.Unlock()
		if _, err := b.History(t.Context(), "e"); err == nil {
			t.Error("a history without an answer is none")
		}
	})
}

// TestClaimThatAFailoverBringsBackIsNotGranted: a write of candidate a was applied and not
// confirmed; b has led since, and the store has forgotten that.
func TestClaimThatAFailoverBringsBackIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		memory := record.NewMemory(c)
		mute := &isolated{Memory: memory, until: time.Now().Add(time.Hour)}
		a, b := record.New(mute, record.Options{Clock: c}), record.New(memory, record.Options{Clock: c})
		defer a.Close()
		defer b.Close()
		old := record.Record{Holder: "a", Nonce: claim("a").Nonce, Token: 7, LeaseMs: 60_000, Heartbeat: 1}
		if _, err := memory.Write(t.Context(), "e", old, ""); err != nil {
			t.Fatal(err)
		}
		second, err := b.Acquire(t.Context(), claim("b"))
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan election.Grant)
		go func() {
			grant, err := a.Acquire(t.Context(), claim("a"))
			if err != nil {
				t.Error(err)
			}
			granted <- grant
		}()
		synctest.Wait()
		mute.mu.Lock()
		mute.until = time.Time{}
		mute.mu.Unlock()
		_, version, _ := memory.Read(t.Context(), "e")
		failed := time.Now()
		if _, err := memory.Write(t.Context(), "e", old, version); err != nil {
			t.Fatal(err)
		}
		first := <-granted
		if first.Token <= second.Token || time.Since(failed) < time.Minute {
			t.Errorf("a is granted token %d, %v after the store forgot that b leads with token %d", first.Token,
				time.Since(failed), second.Token)
		}
	})
}
