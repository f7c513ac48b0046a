package election

import "time"

// EventKind says what an Event is about.
type EventKind uint8

// The kinds of events.
const (
	// EventCampaigning: this candidate asks for the election.
	EventCampaigning EventKind = iota
	// EventElected: this candidate leads from now on.
	EventElected
	// EventEnding: the function was told to end.
	EventEnding
	// EventLost: this candidate no longer leads. Exactly one follows every EventElected, whatever
	// the reason.
	EventLost
	// EventStuck: the function still runs although its time is over: it was told to end
	// Options.EndLimit ago, or the leadership has ended. The leadership is no longer renewed.
	EventStuck
	// EventCampaignFailed: an attempt failed; Err says why.
	EventCampaignFailed
	// EventRenewFailed: a renewal failed; Err says why.
	EventRenewFailed
	// EventReleaseFailed: a release failed; the leadership will expire in the store.
	EventReleaseFailed
	// EventNominated: this leader has chosen who leads next, and that candidate is ready; if the
	// nomination failed, Err says why.
	EventNominated
	// EventHealthFailed: a health check failed; Err says why.
	EventHealthFailed
	// EventRenewed: the store has confirmed the leadership again; Remaining says how close it
	// was.
	EventRenewed
)

var eventNames = [...]string{"campaigning", "elected", "ending", "lost", "stuck",
	"campaign-failed", "renew-failed", "release-failed",
	"nominated", "health-failed", "renewed"}

// String returns the kind as text.
func (k EventKind) String() string {
	if int(k) >= len(eventNames) {
		return "unknown"
	}
	return eventNames[k]
}

// Event is something that happened to a candidate.
type Event struct {
	Kind     EventKind
	Election string
	// Attempt counts the campaigns of this Run from 1.
	Attempt uint64
	// Token is the token of the leadership concerned, zero if there is none.
	Token Token
	// Lease is set with EventElected: how long the store keeps others out. It may differ from
	// Options.Lease, because stores have limits of their own.
	Lease time.Duration
	// Remaining is set with EventRenewed and EventRenewFailed: the time that was left before the
	// deadline when the answer came or the wait for it ended, zero if the leadership was over.
	Remaining time.Duration
	// Reason is set with EventEnding and EventLost.
	Reason Reason
	// Err is set with the kinds that report a failure.
	Err error
	// Missed is how many events before this one were dropped because OnEvent took too long:
	// either kinds that repeat within one leadership, or all events of a campaign and of the
	// leadership it led to, from the beginning.
	Missed int
}
