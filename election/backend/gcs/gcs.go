// Package gcs elects in a bucket of Google Cloud Storage.
//
// In goes an HTTP client that adds credentials, and a bucket, out comes an
// election.Backend. Each election is one object, PREFIX/NAME.json, of what package
// record keeps. It takes four calls of the JSON API, over net/http: get, insert, list,
// and delete for what Probe has left. Open finds credentials by golang.org/x/oauth2.
//
// What always holds:
//
//	gcs-G1  An object is made with ifGenerationMatch=0 and changed with
//	        ifGenerationMatch on the generation that was read; nothing else is
//	        ever written to it. A generation does not come back: the service
//	        counts microseconds since 1970, also for an object or a bucket that
//	        was deleted and made again.
//	gcs-G2  It is never deleted. Releasing an election is one more conditional
//	        write.
//	gcs-G3  A write is sent once, but for gcs-G4: the second try after a lost
//	        answer would report a conflict with oneself. 412 says that nothing
//	        was written; after a 5xx, and without an answer, nobody knows.
//	gcs-G4  A write that is answered with 429 was not carried out: it waits and is
//	        sent again, with the same condition, while its context leaves time.
//	        After that it counts as refused, not as unknown.
//	gcs-G5  Objects are written with Cache-Control: no-store. Without it those
//	        of a public bucket are answered from caches for an hour. An answer
//	        from a cache elects nobody, because the write after it is refused;
//	        it keeps everybody waiting.
//	gcs-G6  Before the first write of a process Probe makes sure that the store
//	        refuses what its conditions forbid. The service does; there are
//	        emulators that do not.
//	gcs-G7  No clock is compared. A lease has run out for a candidate that has
//	        seen the same generation for the whole lease, on its own clock.
//
// One object takes about one write a second: the service answers more with 429. A
// leader renews four times within its lease, and the successor shows three times that
// it waits. That is 0.7 a second with the shortest lease, LeaseMin, and leaves place for
// those who come, ask and hand over.
//
// Every read shows what was answered before, in all locations, dual- and multi-regions
// too. The service answers in tens of milliseconds, and sometimes in seconds.
//
// The bucket: nobody can be elected under a retention policy or a hold, which forbid to
// replace objects; the error says so. Object versioning and soft delete, which new
// buckets have for seven days, keep every renewal and cost: switch both off, or let a
// rule of the bucket's lifecycle delete noncurrent objects after a day. If somebody
// deletes an object, or the bucket and makes it again, the election goes on with a
// higher token, which is not behind the wall clock; the last leader may lead for the
// rest of its lease beside a candidate that has not seen it lead. While there is no
// bucket all calls fail, and candidates end.
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
	// PrefixDefault is the folder of the elections when none is given.
	PrefixDefault = "elections"
	// EndpointDefault is where the service is.
	EndpointDefault = "https://storage.googleapis.com"
	// LeaseMin is the shortest lease: an object takes about one write a second, and
	// there are seven within a lease.
	LeaseMin = 10 * time.Second
	// Scope is the OAuth scope that the credentials of a client for New need.
	Scope = "https://www.googleapis.com/auth/devstorage.read_write"
)

// Options say where the elections are. Bucket is needed, the rest has defaults.
type Options struct {
	// Bucket must exist.
	Bucket string
	// Prefix is the folder of the elections in it, without a slash at either
	// end, up to 200 bytes. Nothing else should write there. Default PrefixDefault.
	Prefix string
	// Endpoint is the URL of the service, without a path: that of a private way to it
	// or of an emulator. Default EndpointDefault.
	Endpoint string
	// Poll is the pause between two looks of a waiter or an observer. Each
	// look is one get. Default a fifth of the leader's lease, from 1 s to 5 s.
	Poll time.Duration
}

// prefixBytesMax leaves an election's name its place in the 1024 bytes that the name of an
// object may have.
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

// New returns a backend on the bucket. It does no I/O; the error is one of the
// options. The client, which must not be nil, adds the credentials, for Scope, to each
// request; it is not changed, and remains the caller's to close. It should not
// retry, and should speak HTTP/1.1, or watch over its connections with pings
// (http.HTTP2Config): a connection of HTTP/2 that has died silently fails all requests until it
// is given up. The client and the backend may be used by several goroutines.
func New(client *http.Client, options Options) (*record.Backend, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{}), nil
}

// Traits names the store and says what it rests on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "gcs", LeaseMin: LeaseMin, Guarantees: election.Guarantees{
		Failover: "none within the bucket's location, dual- and multi-regions too: every read sees what was answered. A bucket " +
			"that is a copy of another is another election. Emulators that ignore conditions are refused",
		Renewal: "1 insert: with a lease of 10 s about $5 a month at $5 per million, with 30 s $1.8. An object takes about one " +
			"write per second, and a lease has seven",
		Waiting: "1 get per poll: with polls every 5 s about $0.2 a month at $0.4 per million. The successor also " +
			"writes three times in a lease",
		Notice: "poll every fifth of the lease (1 s to 5 s), or Options.Poll",
	}}
}

// pollLeast is the shortest pause between two looks, unless Options.Poll says otherwise.
const pollLeast = time.Second
