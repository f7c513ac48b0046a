package record_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

func claim(id string) election.Claim {
	return election.Claim{Election: "e", ID: id, Nonce: fmt.Sprintf("%032s", id), Lease: time.Minute}
}

// TestDeletedRecordHurriesNobody: the holder finds out only with its next renewal (record-R6).
// A record that was released is free at once.
func TestDeletedRecordHurriesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := record.NewMemory(c)
		a, b := record.New(store, record.Options{Clock: c}), record.New(store, record.Options{Clock: c})
		defer b.Close()
		defer a.Close()
		first, err := a.Acquire(t.Context(), claim("a"))
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan election.Grant)
		go func() {
			grant, err := b.Acquire(t.Context(), claim("b"))
			if err != nil {
				t.Error(err)
			}
			granted <- grant
		}()
		synctest.Wait()
		began := time.Now()
		store.Delete("e")
		second := <-granted
		if waited := time.Since(began); waited < time.Minute || waited > time.Minute+time.Second {
			t.Errorf("b was granted after %v", waited)
		}
		if second.Token <= first.Token {
			t.Errorf("token %d after %d", second.Token, first.Token)
		}
		if _, err := a.Renew(t.Context(), first); err == nil {
			t.Error("a renewed what is b's")
		}
	})
}

// TestOlderCopyHurriesNobody: if a record reverts to that of an earlier holder with a short
// lease, the long lease of the present holder does not end.
func TestOlderCopyHurriesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := record.NewMemory(c)
		open := func() *record.Backend { return record.New(store, record.Options{Clock: c}) }
		a, b, w := open(), open(), open()
		defer w.Close()
		defer b.Close()
		defer a.Close()
		brief := claim("a")
		brief.Lease = 5 * time.Second
		first, err := a.Acquire(t.Context(), brief)
		if err != nil {
			t.Fatal(err)
		}
		old, _, _ := store.Read(t.Context(), "e")
		if err := a.Release(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Acquire(t.Context(), claim("b")); err != nil {
			t.Fatal(err)
		}
		granted := make(chan struct{})
		go func() {
			if _, err := w.Acquire(t.Context(), claim("w")); err != nil {
				t.Error(err)
			}
			close(granted)
		}()
		synctest.Wait()
		began := time.Now()
		_, version, _ := store.Read(t.Context(), "e")
		if _, err := store.Write(t.Context(), "e", old, version); err != nil {
			t.Fatal(err)
		}
		<-granted
		if waited := time.Since(began); waited < time.Minute {
			t.Errorf("w was granted after %v, b's lease was a minute", waited)
		}
	})
}

// TestHeartbeatsDoNotComeTwice: a store that fails over may forget renewals, and the holder
// continues from the record as it was before. A candidate that saw the forgotten renewals must
// not take the next ones for the same: their lease would seem to have run for a long time
// (record-R2).
func TestHeartbeatsDoNotComeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		store := record.NewMemory(c)
		a, w := record.New(store, record.Options{Clock: c}), record.New(store, record.Options{Clock: c})
		defer w.Close()
		defer a.Close()
		grant, err := a.Acquire(t.Context(), claim("a"))
		if err != nil {
			t.Fatal(err)
		}
		renew := func() {
			time.Sleep(15 * time.Second)
			if grant, err = a.Renew(t.Context(), grant); err != nil {
				t.Fatal(err)
			}
		}
		old, _, _ := store.Read(t.Context(), "e")
		renew()
		for range w.Observe(t.Context(), "e") { // sees it
			break
		}
		_, version, _ := store.Read(t.Context(), "e")
		if _, err := store.Write(t.Context(), "e", old, version); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		renew()
		waiting, stop := context.WithTimeout(t.Context(), 40*time.Second)
		defer stop()
		if got, err := w.Acquire(waiting, claim("w")); err == nil {
			t.Errorf("w was granted token %d, %v after a renewed", got.Token, c.Now().Sub(grant.Sent))
		}
	})
}

// TestRecordWithTheGreatestTokenElectsNobody: a program that may write the record could use it
// to end every candidate's process. A token below 2^63 fits everywhere.
func TestRecordWithTheGreatestTokenElectsNobody(t *testing.T) {
	for _, token := range []election.Token{math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		store := record.NewMemory(nil)
		if _, err := store.Write(t.Context(), "e", record.Record{Token: token, Incarnation: "another"}, ""); err != nil {
			t.Fatal(err)
		}
		b := record.New(store, record.Options{})
		if grant, err := b.Acquire(t.Context(), claim("a")); !errors.Is(err, election.ErrPermanent) {
			t.Errorf("after token %d: granted %d, %v", token, grant.Token, err)
		}
	}
}
