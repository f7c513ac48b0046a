// Package s3 elects in a bucket of Amazon S3, or of a store that speaks its protocol and enforces
// its conditions.
//
// New makes a backend from a client and the name of a bucket. Each election is one object,
// PREFIX/NAME.json, which contains a random nonce and what package record keeps.
//
// What always holds:
//
//	s3-O1  An object is created with If-None-Match: * and changed with If-Match on the ETag that
//	       was read; nothing else is ever written to it.
//	s3-O2  It is never deleted: there are stores that ignore conditions on DELETE. Releasing an
//	       election is one more conditional write.
//	s3-O3  An ETag never comes back: it is a checksum of the content, and every content has a
//	       nonce of its own.
//	s3-O4  A write is sent once. The SDK's retries are switched off, because a retry after a lost
//	       answer would report a conflict with the first try.
//	s3-O5  Before the first write of a process, Probe checks that the store enforces conditions.
//	       Many stores accept the headers and ignore them: with those everybody would lead.
//	s3-O6  No clocks are compared. A lease has run out for a candidate that has seen the same ETag
//	       for the whole lease, by its own clock.
//
// Object versions are of no use here and cost money: every renewal leaves one. Use a bucket
// without versioning, or let a rule expire them after a day. If somebody deletes an object, the
// election goes on with a higher token, but the last leader may lead for the rest of its lease at
// the same time as the next one.
//
// S3 answers in tens of milliseconds, and sometimes in seconds: use leases below ten seconds only
// for stores that are near.
package s3

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// PrefixDefault is the default folder of the elections.
const PrefixDefault = "elections"

// Options say where the elections are. Bucket is required; the rest has defaults.
type Options struct {
	// Bucket is the name of the bucket, which must exist.
	Bucket string
	// Prefix is the folder of the elections in it, without a slash at either
	// end. Nothing else should write there. Default PrefixDefault.
	Prefix string
	// Poll is the pause between two polls of a waiter or an observer. Each poll is one GetObject.
	// Default a fifth of the leader's lease, from 200 ms to 5 s.
	Poll time.Duration
}

func (o Options) validate() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = PrefixDefault
	}
	switch {
	case o.Bucket == "":
		return o, errors.New("s3: Options.Bucket is empty; name the bucket of the elections")
	case strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") || strings.Contains(o.Prefix, "//"):
		return o, fmt.Errorf("s3: prefix %q: write it without slashes at its ends and without empty parts", o.Prefix)
	case o.Poll < 0:
		return o, fmt.Errorf("s3: poll %v: must not be negative", o.Poll)
	}
	return o, nil
}

// New returns a backend on the bucket. It does no I/O; the client has nothing to close. For
// stores other than AWS's own, set the client's RequestChecksumCalculation to
// aws.RequestChecksumCalculationWhenRequired, and UsePathStyle if buckets have no host names.
func New(client *s3.Client, options Options) (*record.Backend, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "s3", LeaseMin: time.Second, Guarantees: election.Guarantees{
		Failover: "within a Region none: every read sees what was answered, across zones. A bucket replicated to another Region " +
			"is another election. Stores that ignore conditions are refused",
		Renewal: "1 PutObject: with a lease of 10 s about $5 a month at $5 per million, with 30 s $1.8",
		Waiting: "1 GetObject per poll: with polls every 5 s about $0.2 a month at $0.4 per million. The successor also " +
			"writes three times in a lease",
		Notice: "poll every fifth of the lease (200 ms to 5 s), or Options.Poll",
	}}
}

// pollLeast is the shortest pause between two polls, unless Options.Poll is set.
const pollLeast = 200 * time.Millisecond
