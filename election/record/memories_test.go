package record

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// TestElectionsThatAreOverAreForgotten: there may be one for each job, thousands of them.
// Elections with a candidate or a leader are not over, however long nothing is asked.
func TestElectionsThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, electionsThatAreOverAreForgotten)
}

func electionsThatAreOverAreForgotten(t *testing.T) {
	c := electiontest.VirtualClock(1)
	// Without a watch, which would ask for the leader's election all the time.
	b := New(&directed{Memory: NewMemory(c)}, Options{Clock: c})
	defer b.Close()
	lead := func(name string, i int) election.Grant {
		grant, err := b.Acquire(t.Context(), election.Claim{Election: name, ID: "a", Nonce: fmt.Sprintf("%032d", i), Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	held := lead("held", 0)
	most := 0
	for i := range 10 * memoriesMin {
		name := fmt.Sprintf("job/%d", i)
		grant := lead(name, i+1)
		grant.Ended = election.ReasonReturned
		if err := b.Release(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
		if _, err := b.History(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		most = max(most, len(b.memories))
		b.mu.Unlock()
		time.Sleep(memoryAge / memoriesMin)
	}
	if most > 4*memoriesMin {
		t.Errorf("%d elections were known at a time, where %d were used in the time for which one is known", most, memoriesMin)
	}
	b.mu.Lock()
	knows := b.memories["held"] != nil
	b.mu.Unlock()
	if !knows {
		t.Error("the election is forgotten whose leader has not released it")
	}
	if err := b.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
}
