package tenures

import (
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

func at(second int64) time.Time { return time.Unix(second, 0).UTC() }

func TestHistoryTellsHowLeadershipsEnded(t *testing.T) {
	history := Begin(nil, "a", 1, at(1))
	history = End(history, 1, election.ReasonResigned, at(2))
	history = Begin(history, "b", 5, at(3))
	history = Begin(history, "c", 9, at(8))
	history = Begin(history, "c", 9, at(9)) // the answer to the first try was lost
	want := []election.Tenure{
		{Leader: "a", Token: 1, Since: at(1), Until: at(2), Reason: "resigned"},
		{Leader: "b", Token: 5, Since: at(3), Until: at(8), Reason: Expired},
		{Leader: "c", Token: 9, Since: at(8)},
	}
	if !slices.Equal(history, want) {
		t.Errorf("history %+v", history)
	}
	if Last(history) != 9 || Last(nil) != 0 {
		t.Errorf("last tokens %d and %d", Last(history), Last(nil))
	}
	if all := Expire(history, 0, at(9)); all[2].Reason != Expired || history[2].Reason != "" {
		t.Errorf("nobody leads: %+v, before it %+v", all[2], history[2])
	}
}

func TestReasonOfTheFormerLeaderComesFirst(t *testing.T) {
	history := Begin(Begin(nil, "a", 1, at(1)), "b", 2, at(5))
	history = End(history, 1, election.ReasonTaken, at(9))
	if c, _ := Find(history, 1); c.Reason != "taken" || !c.Until.Equal(at(5)) {
		t.Errorf("it became %+v", c)
	}
	if c, _ := Find(End(history, 2, 0, at(9)), 2); c.Reason != Withdrawn {
		t.Errorf("unused: %+v", c)
	}
	if _, found := Find(history, 3); found {
		t.Error("found a leadership that never was")
	}
}

func TestOldestLeadershipsAreDropped(t *testing.T) {
	var history []election.Tenure
	for token := election.Token(1); token <= 3*Max; token++ {
		history = Begin(history, "x", token, at(int64(token)))
	}
	if len(history) != Max || history[0].Token != 2*Max+1 {
		t.Errorf("%d are kept, the first has token %d", len(history), history[0].Token)
	}
}
