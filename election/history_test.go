package election_test

import (
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// TestHistoryNeverShowsTwoLeadersAtOnce, whatever the clocks from which its times come.
func TestHistoryNeverShowsTwoLeadersAtOnce(t *testing.T) {
	at := func(s int) time.Time {
		if s == 0 {
			return time.Time{}
		}
		return time.Unix(1_700_000_000+int64(s), 0).UTC()
	}
	change := func(token election.Token, since, until int, reason string) election.Tenure {
		return election.Tenure{Leader: "a", Token: token, Since: at(since), Until: at(until), Reason: reason}
	}
	for what, test := range map[string]struct{ noted, shown []election.Tenure }{
		"in order":                         {[]election.Tenure{change(1, 10, 20, "resigned"), change(2, 25, 0, "")}, nil},
		"its successor noted the end late": {[]election.Tenure{change(1, 10, 22, "expired"), change(2, 20, 0, "")}, []election.Tenure{change(1, 10, 20, "expired"), change(2, 20, 0, "")}},
		"nobody noted the end":             {[]election.Tenure{change(1, 10, 0, ""), change(2, 20, 0, "")}, []election.Tenure{change(1, 10, 20, "expired"), change(2, 20, 0, "")}},
		"a successor on a slow clock":      {[]election.Tenure{change(1, 10, 20, "resigned"), change(2, 5, 7, "stopped"), change(3, 6, 0, "")}, []election.Tenure{change(1, 10, 10, "resigned"), change(2, 10, 10, "stopped"), change(3, 10, 0, "")}},
		"none":                             {nil, nil},
	} {
		if test.shown == nil {
			test.shown = test.noted
		}
		noted := slices.Clone(test.noted)
		if got := election.OneByOne(test.noted); !slices.Equal(got, test.shown) {
			t.Errorf("%s:\n%v\nexpected\n%v", what, got, test.shown)
		}
		if !slices.Equal(noted, test.noted) {
			t.Errorf("%s: what was noted has changed", what)
		}
	}
}
