package election

import "time"

// EventKind says what an Event tells.
type EventKind uint8

// The kinds of events.
const (
	// EventCampaigning: this candidate asks for the election.
	EventCampaigning EventKind = iota
	// EventElected: this candidate leads from here on.
	EventElected
	// EventEnding: the function was told to end.
	EventEnding
	// EventLost: this candidate leads no more. Exactly one follows every
	// EventElected, whatever the reason.
	EventLost
	// EventStuck: the function still runs though its time is over: it was told
	// to end Options.EndLimit ago, or the leadership has ended. It is not
	// renewed any more.
	EventStuck
	// EventCampaignFailed: an attempt failed; Err says why.
	EventCampaignFailed
	// EventRenewFailed: a renewal failed; Err says why.
	EventRenewFailed
	// EventReleaseFailed: a release failed; the store will expire it.
	EventReleaseFailed
	// EventNominated: this leader has chosen who leads next, and that one is
	// ready; Err says why when nothing came of it.
	EventNominated
	// EventHealthFailed: a health check failed; Err says why.
	EventHealthFailed
	// EventRenewed: the store has proved the leadership again; Remaining says
	// how close it was.
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

// Event tells what happened to a candidate.
type Event struct {
	Kind     EventKind
	Election string
	// Attempt counts the campaigns of this Run, from 1.
	Attempt uint64
	// Token is that of the leadership concerned, else zero.
	Token Token
	// Lease is set with EventElected: for how long the store keeps others out.
	// It may differ from Options.Lease, as stores have limits of their own.
	Lease time.Duration
	// Remaining is set with EventRenewed and EventRenewFailed: the time that was
	// left to the deadline when the answer came or was no longer waited for,
	// zero if the leadership was over.
	Remaining time.Duration
	// Reason is set with EventEnding and EventLost.
	Reason Reason
	// Err is set with the kinds that report a failure.
	Err error
	// Missed is how many events before this one were left out because OnEvent
	// took too long: kinds that repeat within one leadership, or all of a campaign
	// and what came of it, from its beginning.
	Missed int
}
