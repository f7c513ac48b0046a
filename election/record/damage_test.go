package record_test

import (
	"fmt"
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

// TestDeletedRecordHurriesNobody: the holder finds out with its next renewal
// only (R6). A record that was released is free at once.
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
