// Package gcs elects in a bucket of Google Cloud Storage.
//
// New makes a backend from an HTTP client that adds credentials, and the name of a bucket. Each
// election is one object, PREFIX/NAME.json, which contains what package record keeps. The package
// uses four calls of the JSON API, over net/http: get, insert, list, and delete for what Probe
// has left. Open finds credentials with golang.org/x/oauth2.
//
// What always holds:
//
//	gcs-G1  An object is created with ifGenerationMatch=0 and changed with ifGenerationMatch on
//	        the generation that was read; nothing else is ever written to it. A generation does
//	        not come back: the service counts microseconds since 1970, even for an object or a
//	        bucket that was deleted and created again.
//	gcs-G2  It is never deleted. Releasing an election is one more conditional
//	        write.
//	gcs-G3  A write is sent once, except for gcs-G4: a retry after a lost answer would report a
//	        conflict with the first try. 412 means that nothing was written; after a 5xx, or
//	        without an answer, the outcome is unknown.
//	gcs-G4  A write that is answered with 429 was not carried out: it waits and is
//	        sent again, with the same condition, while its context leaves time.
//	        After that it counts as refused, not as unknown.
//	gcs-G5  Objects are written with Cache-Control: no-store. Without it, objects of a public
//	        bucket are served from caches for an hour. An answer from a cache elects nobody,
//	        because the write after it is refused, but it keeps everybody waiting.
//	gcs-G6  Before the first write of a process, Probe checks that the store enforces conditions.
//	        The service does; some emulators do not.
//	gcs-G7  No clocks are compared. A lease has run out for a candidate that has seen the same
//	        generation for the whole lease, by its own clock.
//
// One object takes about one write a second: the service answers more with 429. A leader renews
// four times within its lease, and the successor shows three times that it waits. That is 0.7 a
// second with the shortest lease, LeaseMin, and leaves space for candidates that join, operators
// that ask, and hand-overs.
//
// Every read shows what was answered before, in all locations, including dual- and multi-regions.
// The service answers in tens of milliseconds, and sometimes in seconds.
//
// If the bucket has a retention policy or a hold, which forbid replacing objects, nobody can be
// elected; the error says so. Object versioning, and soft delete, which new buckets have for
// seven days, keep every renewal and cost money: switch both off, or let a rule of the bucket's
// lifecycle delete noncurrent objects after a day. If somebody deletes an object, or deletes the
// bucket and creates it again, the election goes on with a higher token, which is not behind the
// wall clock; the last leader may lead for the rest of its lease at the same time as a candidate
// that has not seen it lead. While there is no bucket all calls fail, and candidates end.
package gcs

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

const (
	// PrefixDefault is the default folder of the elections.
	PrefixDefault = "elections"
	// EndpointDefault is the URL of the service.
	EndpointDefault = "https://storage.googleapis.com"
	// LeaseMin is the shortest lease: an object takes about one write a second, and
	// there are seven within a lease.
	LeaseMin = 10 * time.Second
	// Scope is the OAuth scope that the credentials of a client for New need.
	Scope = "https://www.googleapis.com/auth/devstorage.read_write"
)

// Options say where the elections are. Bucket is required; the rest has defaults.
type Options struct {
	// Bucket is the name of the bucket, which must exist.
	Bucket string
	// Prefix is the folder of the elections in it, without a slash at either
	// end, up to 200 bytes. Nothing else should write there. Default PrefixDefault.
	Prefix string
	// Endpoint is the URL of the service, without a path: for a private endpoint or an emulator.
	// Default EndpointDefault.
	Endpoint string
	// Poll is the pause between two polls of a waiter or an observer. Each poll is one get.
	// Default a fifth of the leader's lease, from 1 s to 5 s.
	Poll time.Duration
}

// prefixBytesMax leaves space for an election's name in the 1024 bytes of an object's name.
const prefixBytesMax = 200

func (o Options) validate() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, PrefixDefault)
	o.Endpoint = strings.TrimSuffix(cmp.Or(o.Endpoint, EndpointDefault), "/")
	at, err := url.Parse(o.Endpoint)
	switch {
	case o.Bucket == "":
		return o, errors.New("gcs: Options.Bucket is empty; name the bucket of the elections")
	case strings.Contains(o.Bucket, "/"):
		return o, fmt.Errorf("gcs: bucket %q: a bucket's name has no slash; folders go into the prefix", o.Bucket)
	case strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") || strings.Contains(o.Prefix, "//"):
		return o, fmt.Errorf("gcs: prefix %q: write it without slashes at its ends and without empty parts", o.Prefix)
	case len(o.Prefix) > prefixBytesMax:
		return o, fmt.Errorf("gcs: prefix %.20q...: it has %d bytes, at most %d are allowed", o.Prefix, len(o.Prefix), prefixBytesMax)
	case err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil || at.Path != "" || at.RawQuery != "":
		return o, fmt.Errorf("gcs: endpoint %q: write it as %s, without a path", o.Endpoint, EndpointDefault)
	case o.Poll < 0:
		return o, fmt.Errorf("gcs: poll %v: must not be negative", o.Poll)
	}
	return o, nil
}

// New returns a backend on the bucket. It does no I/O; an error is about the options. The client,
// which must not be nil, must add the credentials, for Scope, to each request; it is not changed,
// and remains the caller's to close. It should not retry, and should either speak HTTP/1.1 or
// check its connections with pings (http.HTTP2Config): an HTTP/2 connection that has failed
// silently fails all requests until it is given up. The client and the backend may be used by
// several goroutines.
func New(client *http.Client, options Options) (*record.Backend, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "gcs", LeaseMin: LeaseMin, Guarantees: election.Guarantees{
		Failover: "none within the bucket's location, including dual- and multi-regions: every read sees what " +
			"was answered. A bucket that is a copy of another is another election. Emulators that ignore " +
			"conditions are refused",
		Renewal: "1 insert: with a lease of 10 s about $5 a month at $5 per million, with 30 s $1.8. An object takes about one " +
			"write per second, and a lease has seven",
		Waiting: "1 get per poll: with polls every 5 s about $0.2 a month at $0.4 per million. The successor also " +
			"writes three times in a lease",
		Notice: "poll every fifth of the lease (1 s to 5 s), or Options.Poll",
	}}
}

// pollLeast is the shortest pause between two polls, unless Options.Poll is set.
const pollLeast = time.Second
