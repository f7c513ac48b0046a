// Package tenures writes the history of an election for backends that keep it next to the election.
//
// Given the latest leaderships and an event, it returns the leaderships after that event. It
// does not change a slice in place. What always holds:
//
//	tenures-H1  The oldest leaderships are dropped; at least election.HistoryMin are kept.
//	tenures-H2  A leadership that has not ended is the last one, or has expired: its holder was
//	            killed, partitioned or frozen, and a successor records that.
//	tenures-H3  What the former leader reports about the end of its leadership takes precedence
//	            over the report of a successor, which only knows that the leader has gone.
package tenures

import (
	"slices"
	"time"

	"github.com/conclave-project/conclave/election"
)

const (
	// Max is how many leaderships are kept.
	Max = 2 * election.HistoryMin
	// Expired is the reason of a leadership that was never released, and Withdrawn is the
	// reason of a grant that was released unused.
	Expired, Withdrawn = "expired", "withdrawn"
)

// Begin adds a leadership, unless it is already there because the answer to the first try was
// lost. Earlier leaderships without an end have expired.
func Begin(history []election.Tenure, id string, token election.Token, now time.Time) []election.Tenure {
	next := Expire(history, token, now)
	if _, there := Find(next, token); there {
		return next
	}
	next = append(next, election.Tenure{Leader: id, Token: token, Since: now})
	return next[max(0, len(next)-Max):]
}

// Expire ends all leaderships without an end, except the one with the token of the present
// leader, which is zero if there is none (tenures-H2).
func Expire(history []election.Tenure, present election.Token, now time.Time) []election.Tenure {
	next := slices.Clone(history)
	for i := range next {
		if c := &next[i]; c.Until.IsZero() && c.Token != present {
			c.Until, c.Reason = now, Expired
		}
	}
	return next
}

// End ends the leadership with this token for the reason that its holder states (tenures-H3).
func End(history []election.Tenure, token election.Token, reason election.Reason, now time.Time) []election.Tenure {
	next := slices.Clone(history)
	for i := range next {
		c := &next[i]
		if c.Token != token {
			continue
		}
		if c.Until.IsZero() {
			c.Until = now
		}
		c.Reason = Withdrawn
		if reason != 0 {
			c.Reason = reason.String()
		}
	}
	return next
}

// Find returns the leadership with a token.
func Find(history []election.Tenure, token election.Token) (election.Tenure, bool) {
	for _, c := range history {
		if c.Token == token {
			return c, true
		}
	}
	return election.Tenure{}, false
}

// Last returns the latest token, or zero if there is none.
func Last(history []election.Tenure) election.Token {
	if len(history) == 0 {
		return 0
	}
	return history[len(history)-1].Token
}
