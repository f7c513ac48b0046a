package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
)

// Store is what this package needs of a store: one small record for each
// election, read as it is now and changed by compare and set. Implementations
// are safe for use by several goroutines, and return soon after their context
// has ended.
type Store interface {
	// Traits names the store and says what it rests on: Name, LeaseMin and
	// Guarantees; the rest is filled in by this package. It does no I/O.
	Traits() election.Traits

	// Read returns the latest record of the election and its version; a zero
	// Record and the version "" when there is none. The read is linearizable:
	// it shows every write that was answered before it was sent.
	Read(ctx context.Context, name string) (Record, string, error)

	// Write puts the record if the stored one still has the version, "" being
	// none at all, and returns the new version, which differs from every
	// earlier one. ErrConflict says that it had another version and that
	// nothing was written; after any other error nobody knows. It makes one
	// attempt: no retries below it, which would turn a success whose answer
	// was lost into a conflict.
	Write(ctx context.Context, name string, record Record, version string) (string, error)

	// Wait returns nil once the record may have another version than the one
	// given, or after the limit, which is at most the lease. A store that
	// cannot be watched sleeps for its pause between polls, if that is
	// shorter than the limit.
	Wait(ctx context.Context, name, version string, limit time.Duration) error

	// Names returns the names of the elections that have a record, in any
	// order.
	Names(ctx context.Context) ([]string, error)
}

// Watcher is a Store whose Wait is told of changes and does not poll. Holders
// then learn of requests at once.
type Watcher interface{ Watches() bool }

// Teller is a Watcher whose watch brings the record itself. A candidate with nothing to
// do then reads nothing when the holder has renewed (record-R9).
type Teller interface {
	// WaitTold is Wait that also returns what the record has become, as the watch
	// has told it. News may be late, or missing; of one watch they come in the
	// order of the writes.
	WaitTold(ctx context.Context, name, version string, limit time.Duration) (News, error)
}

// News is a record and its version as a watch has told them. The zero News says no
// more than the end of a Wait does.
type News struct {
	Record  Record
	Version string
}

// NewsOf are those of a record in JSON; none if there is no text, or a damaged one.
func NewsOf(version string, text []byte) News {
	news := News{Version: version}
	if len(text) == 0 || json.Unmarshal(text, &news.Record) != nil {
		return News{}
	}
	return news
}

// Incarnated is a Store that has a name for the course of its history, which
// changes whenever it may have forgotten grants: a failover, a restart, a restore.
type Incarnated interface {
	// Incarnation is the name as the last answer of the store has told it, empty
	// before the first. Write puts a record with a new holder only if its
	// Incarnation still is the store's.
	Incarnation() string
}

// NotYetError is what Write returns when the store has put nothing and will not for
// now. A new holder is told so by a store that may have forgotten a grant whose lease
// still lasts, anybody by one that takes few writes in a time. It is no failure; a
// candidate looks again after the time.
type NotYetError struct{ After time.Duration }

func (e *NotYetError) Error() string {
	return fmt.Sprintf("the store may have forgotten a leadership; nobody is elected for %v", e.After)
}

// ErrConflict is what Write returns when the record had another version.
var ErrConflict = errors.New("the record has another version")

// Record is what a store keeps of one election. Its JSON is the form for stores that
// keep bytes; unknown fields of later versions are kept out. A store looks at no more
// of it than, if it is Incarnated, at Nonce and Incarnation: a Nonce that is neither
// empty nor that of the record before is a new holder's. Holder, Token, LeaseMs,
// History and Next are for people.
type Record = claims.Record

// Next is the candidate successor: the one place in a record for those who
// wait, taken by the one of the highest priority.
type Next = claims.Next

// States of Next.
const (
	StateNominated = claims.StateNominated // the holder wants it to lead next
	StateReady     = claims.StateReady     // it has warmed up
	StateNotReady  = claims.StateNotReady  // it could not warm up
)
