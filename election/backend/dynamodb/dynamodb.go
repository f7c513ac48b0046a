// Package dynamodb elects in a table of Amazon DynamoDB.
//
// New makes a backend from a client and the name of a table. Each election is one item:
//
//	election  S  its name: the partition key, whose name can be chosen
//	version   S  random, another one with every write
//	record    S  what package record keeps, as JSON
//	token     N  the token of the holder, or of the last one
//	holder    S  the id of the holder; missing when nobody leads
//
// What always holds:
//
//	dynamodb-D1  An item is changed only by PutItem under the condition that its
//	             version is still the one that was read, and read only with
//	             ConsistentRead.
//	dynamodb-D2  A version never comes back, not even after the item was deleted.
//	dynamodb-D3  A write is sent once. The SDK's retries are switched off, because a retry after a
//	             lost answer would report a conflict with the first try. A conflict with a write's
//	             own version is taken for the success that it is.
//	dynamodb-D4  No clocks are compared. A lease has run out for a candidate that has seen the
//	             same version for the whole lease, by its own clock, as in AWS's own lock client.
//	             So a candidate that comes late waits a whole lease for a holder that has died,
//	             and no renewal costs a read.
//	dynamodb-D5  A table that Open is to create is created by the first write that finds none. So a
//	             service that does not answer is waited for like any other, and a program that only
//	             looks, or finds the table there, needs no permission to create it. A table that
//	             was seen and is gone is not created again.
//
// Nothing may delete items: leave the table's own time to live switched off. If an item is
// deleted, the election goes on with a higher token, but the last leader may lead for the rest of
// its lease at the same time as the next one. All candidates must use a global table in the same
// Region, unless it is of the strongly consistent kind: the others merge what two Regions have
// written.
//
// Fence puts the token where it protects most: in the transaction that writes the leader's data,
// if that is in DynamoDB too.
package dynamodb

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// KeyDefault is the default name of the partition key.
const KeyDefault = "election"

// Options say where the elections are. Table is required; the rest has defaults.
type Options struct {
	// Table is the name or the ARN of the table. CreateTable creates one.
	Table string
	// Key is the name of its partition key, of type string; the table has no
	// sort key. Default KeyDefault.
	Key string
	// Poll is the pause between two polls of a waiter or an observer. Each poll is one consistent
	// GetItem. Default a fifth of the leader's lease, from 100 ms to 5 s.
	Poll time.Duration
}

func (o Options) validate() (Options, error) {
	o.Key = cmp.Or(o.Key, KeyDefault)
	switch {
	case o.Table == "":
		return o, errors.New("dynamodb: Options.Table is empty; name the table of the elections")
	case o.Key == attributeVersion || o.Key == attributeRecord || o.Key == attributeToken ||
		o.Key == attributeHolder:
		return o, fmt.Errorf("dynamodb: the partition key cannot be %q, an attribute of that name is needed", o.Key)
	case o.Poll < 0:
		return o, fmt.Errorf("dynamodb: poll %v: must not be negative", o.Poll)
	}
	return o, nil
}

// New returns a backend on the table. It does no I/O. The client has nothing to close.
func New(client *dynamodb.Client, options Options) (*record.Backend, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "dynamodb", LeaseMin: time.Second, Guarantees: election.Guarantees{
		Failover: "within a Region none: a write is in two of three zones before it is answered. Between " +
			"Regions only strongly consistent global tables keep the promise; with all others every candidate " +
			"must use the same Region",
		Renewal: "1 PutItem: a write unit per started KB of the item, 1 to 4 with its history; with a lease of 10 s about " +
			"$0.7 to $2.6 a month at $0.63 per million units",
		Waiting: "1 consistent GetItem per poll: a read unit per started 4 KB; with polls every 2 s about $0.2 a month at " +
			"$0.13 per million units. The successor also writes three times in a lease",
		Notice: "poll every fifth of the lease (100 ms to 5 s), or Options.Poll",
	}}
}

// pollLeast is the shortest pause between two polls, unless Options.Poll is set.
const pollLeast = 100 * time.Millisecond
