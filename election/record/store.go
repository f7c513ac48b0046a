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

// Store is what this package needs from a store: one small record for each election, with
// linearizable reads, changed by compare and set. Implementations are safe for use by several
// goroutines, and return soon after their context has ended.
type Store interface {
	// Traits names the store and says what it depends on: Name, LeaseMin and Guarantees; this
	// package fills in the rest. It does no I/O.
	Traits() election.Traits

	// Read returns the latest record of the election and its version, or a zero Record and the
	// version "" if there is none. The read is linearizable: it shows every write that was
	// answered before the read was sent.
	Read(ctx context.Context, name string) (Record, string, error)

	// Write stores the record if the stored one still has the given version, "" meaning that
	// there is none, and returns the new version, which differs from every earlier one.
	// ErrConflict means that the stored record had another version and that nothing was written;
	// after any other error the outcome is unknown. Write makes one attempt: retries in a lower
	// layer would turn a success whose answer was lost into a conflict.
	Write(ctx context.Context, name string, record Record, version string) (string, error)

	// Wait returns nil once the record may have another version than the given one, or after the
	// limit, which is at most the lease. A store that cannot be watched sleeps for its polling
	// interval, if that is shorter than the limit.
	Wait(ctx context.Context, name, version string, limit time.Duration) error

	// Names returns the names of the elections that have a record, in any
	// order.
	Names(ctx context.Context) ([]string, error)
}

// Watcher is a Store whose Wait is notified of changes instead of polling. Holders then learn of
// requests at once.
type Watcher interface{ Watches() bool }

// Teller is a Watcher whose watch delivers the record itself. A candidate with nothing to do then
// need not read when the holder has renewed (record-R9).
type Teller interface {
	// WaitTold is Wait, but also returns the new record as delivered by the watch. News may be
	// late or missing; the news of one watch arrives in the order of the writes.
	WaitTold(ctx context.Context, name, version string, limit time.Duration) (News, error)
}

// News is a record and its version as delivered by a watch. The zero News means no more than the
// return of a Wait does.
type News struct {
	Record  Record
	Version string
}

// NewsOf returns the News of a record in JSON; the zero News if the text is empty or damaged.
func NewsOf(version string, text []byte) News {
	news := News{Version: version}
	if len(text) == 0 || json.Unmarshal(text, &news.Record) != nil {
		return News{}
	}
	return news
}

// Incarnated is a Store whose history has a name, which changes whenever the store may have
// forgotten grants: after a failover, a restart or a restore.
type Incarnated interface {
	// Incarnation returns the name as of the last answer of the store, empty before the first.
	// Write stores a record with a new holder only if its Incarnation is still the store's.
	Incarnation() string
}

// NotYetError is what Write returns if the store has written nothing and will not write for now.
// A store that may have forgotten a grant whose lease still lasts returns it for a new holder; a
// store that limits its rate of writes returns it for any write. It is not a failure: a candidate
// tries again after the given time.
type NotYetError struct{ After time.Duration }

func (e *NotYetError) Error() string {
	return fmt.Sprintf("the store may have forgotten a leadership; nobody is elected for %v", e.After)
}

// ErrConflict is what Write returns if the record had another version.
var ErrConflict = errors.New("the record has another version")

// Record is what a store keeps for one election. Stores that keep bytes use its JSON form; unknown
// fields of later versions are dropped. A store does not look inside it unless it is Incarnated:
// then it reads Nonce and Incarnation, and treats a Nonce that is neither empty nor that of the
// previous record as a new holder's. Holder, Token, LeaseMs, History and Next are for people.
type Record = claims.Record

// Next is the candidate successor: the one place in a record for waiters, taken by the waiter
// with the highest priority.
type Next = claims.Next

// States of Next.
const (
	StateNominated = claims.StateNominated // the holder wants it to lead next
	StateReady     = claims.StateReady     // it has warmed up
	StateNotReady  = claims.StateNotReady  // it could not warm up
)
