// Package s3 elects in a bucket of Amazon S3, or of a store that speaks its
// protocol and honours its conditions.
//
// In goes a client and a bucket, out comes an election.Backend. Each election
// is one object, PREFIX/NAME.json, of a random nonce and what package record
// keeps.
//
// What always holds:
//
//	s3-O1  An object is made with If-None-Match: * and changed with If-Match on
//	       the ETag that was read; nothing else is ever written to it.
//	s3-O2  It is never deleted: there are stores that ignore conditions on
//	       DELETE. Giving an election back is one more conditional write.
//	s3-O3  An ETag never comes back: it is a sum of the content, and every
//	       content has a nonce of its own.
//	s3-O4  A write is sent once. The SDK's retries are switched off, because a
//	       second try after a lost answer reports a conflict with oneself.
//	s3-O5  Before the first write of a process Probe makes sure that the store
//	       refuses what its conditions forbid. Many stores accept the headers
//	       and ignore them: on those everybody would lead.
//	s3-O6  No clock is compared. A lease has run out for a candidate that has
//	       seen the same ETag for the whole lease, on its own clock.
//
// Versions are of no use here and cost: every renewal leaves one. Use a bucket
// without versioning, or let a rule expire them after a day. If somebody
// deletes an object the election goes on with a higher token, but the last leader
// may lead for the rest of its lease beside the next.
//
// S3 answers in tens of milliseconds, and sometimes in seconds: leases below
// ten seconds are for stores that are near.
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

// PrefixDefault is the folder of the elections when none is given.
const PrefixDefault = "elections"

// Options say where the elections are. Bucket is needed, the rest has defaults.
type Options struct {
	// Bucket must exist.
	Bucket string
	// Prefix is the folder of the elections in it, without a slash at either
	// end. Nothing else should write there. Default PrefixDefault.
	Prefix string
	// Poll is the pause between two looks of a waiter or an observer. Each
	// look is one GetObject. Default a fifth of the leader's lease, from
	// 200 ms to 5 s.
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

// New returns a backend on the bucket. It does no I/O; the client has nothing
// to close. For stores that are not AWS's own, the client is best told
// RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, and
// UsePathStyle where buckets have no host names.
func New(client *s3.Client, options Options) (*record.Backend, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

// Traits names the store and says what it rests on.
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

// pollLeast is the shortest pause between two looks, unless Options.Poll says otherwise.
const pollLeast = 200 * time.Millisecond
