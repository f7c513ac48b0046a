// Package nats elects on NATS JetStream, 2.10 and later.
//
// In goes a connection, or a URL; all elections are keys of one key-value
// bucket, whose revisions are the versions:
//
//	conclave_elections
//	    billing/nightly    the record as JSON
//	    =settled           the incarnation of the bucket that is adopted
//
// What always holds:
//
//	nats-J1  A write is one message that names the revision it expects of its
//	         key; the leader of the stream refuses it if there is a later one.
//	         Revisions are numbers of the stream and do not come back when a key
//	         is deleted. Those of a bucket that is made again begin at the
//	         milliseconds of its making, beyond those of the one before.
//	nats-J2  Nothing expires by the server: the bucket has no TTL, and one that
//	         has is refused. A value that expires by the clock of a server that
//	         is set forward is gone under its leader; a waiter counts the lease
//	         on a clock of its own.
//	nats-J3  Reads go to the leader of the stream, also where the bucket allows
//	         direct reads, which any replica answers from the past.
//	nats-J4  Under an incarnation of the bucket that was not watched for
//	         LeaseMax nobody is elected; leaders whose record is still there go
//	         on. The incarnation is when the bucket was made, and, for one that
//	         is not replicated, which start of which server has it. Where that
//	         cannot be seen, through a leaf node, such a bucket is refused, and so
//	         is one with several replicas in memory, which forget all when most
//	         of them start again. What may be forgotten has run out by then. A
//	         bucket that is used for the first time makes its first candidate
//	         wait too. A grant counts if the incarnation was the same before and
//	         after its message.
//
// A server answers before a write is on disk (sync_interval, two minutes by
// default). A bucket of three replicas forgets what it has answered if most of
// them lose power at the same time; "sync_interval: always" in their
// configuration ends that. A replicated bucket keeps its incarnation then, so
// two could lead for one lease; tokens protect what is fenced.
package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/backend/internal/watchhub"
	"github.com/conclave-project/conclave/election/record"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BucketDefault is the name of the bucket unless another is chosen.
const BucketDefault = "conclave_elections"

const (
	timeoutDefault = 5 * time.Second
	pollPause      = time.Second
)

// Options of a backend. The zero value is good.
type Options struct {
	// Bucket is the name of the key-value bucket. Default BucketDefault.
	Bucket string
	// Replicas is how many copies a bucket has that is made because there is
	// none: 1, 3 or 5. Default 1; a cluster deserves 3.
	Replicas int
	// LeaseMax is the longest lease that may be asked for, and for how long
	// nobody is elected when the bucket may have forgotten something. All
	// candidates that share the bucket, of whatever election, have to agree on
	// it, which nobody checks: the first that has waited for its own LeaseMax
	// ends the wait for all. Default 15 s.
	LeaseMax time.Duration
	// Timeout is how long one request may take. Default 5 s.
	Timeout time.Duration
}

// New returns a backend on JetStream. It asks for nothing before it is used.
// The connection stays the caller's: Close of the backend does not close it.
// Give it nats.ReconnectBufSize(-1): what cannot be sent now is better not
// sent later; nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort(), or an
// outage, or two refusals of its credentials, close it, and end every Run.
func New(js jetstream.JetStream, options Options) (*record.Backend, error) {
	s, err := newStore(js, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{Close: func() error {
		s.hub.Close()
		return nil
	}}), nil
}

func newStore(js jetstream.JetStream, options Options) (*store, error) {
	if options.Timeout < 0 || options.LeaseMax < 0 || options.Replicas < 0 {
		return nil, errors.New("nats: Timeout, LeaseMax and Replicas must not be negative; leave them out for the defaults")
	}
	if options.Bucket == "" {
		options.Bucket = BucketDefault
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	if options.Replicas == 0 {
		options.Replicas = 1
	}
	if strings.Trim(options.Bucket, bucketAlphabet) != "" {
		return nil, fmt.Errorf("nats: bucket %q: its name may have letters, digits, - and _ only", options.Bucket)
	}
	s := &store{js: js, options: options, watch: incarnation.NewWatch(options.LeaseMax), holders: make(map[string]holder)}
	s.hub = watchhub.New(s.listen, pollPause)
	return s, nil
}

const bucketAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// form is what the URLs look like.
var form = storeurl.Form{Backend: "nats", Schemes: []string{"nats", "tls", "ws", "wss"},
	Example: "nats://user:password@host:4222,other:4222/?replicas=3 (tls:// and wss:// too)"}

// Open returns a backend on the servers of a URL, and what closes it. The
// credentials are in the URL, or in the file that creds=FILE or NATS_CREDS
// names. Besides:
//
//	bucket=NAME       see Options.Bucket
//	replicas=3        see Options.Replicas
//	lease-max=15s     see Options.LeaseMax
//	domain=NAME       of JetStream
//
// It does not wait for a server to answer.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	target, err := parse(text)
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	return target.open()
}

// target is what a URL names.
type target struct {
	servers string
	creds   string
	domain  string
	options Options
}

// parse does by hand what net/url does not: several hosts with ports.
func parse(text string) (target, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || !slices.Contains(form.Schemes, scheme) {
		return target{}, fmt.Errorf("it does not begin with %s://", strings.Join(form.Schemes, "://, "))
	}
	rest, parameters, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if path != "" {
		return target{}, errors.New("nothing belongs after the slash")
	}
	t := target{creds: os.Getenv("NATS_CREDS")}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse(scheme + "://" + host)
		if err != nil || u.Hostname() == "" {
			return target{}, errors.New("a server must be named as host:port")
		}
		if t.servers != "" {
			t.servers += ","
		}
		t.servers += u.String()
	}
	values, err := url.ParseQuery(parameters)
	if err == nil {
		err = storeurl.Parameters{
			"creds":     storeurl.Text(&t.creds),
			"domain":    storeurl.Text(&t.domain),
			"bucket":    storeurl.Text(&t.options.Bucket),
			"replicas":  storeurl.Count(&t.options.Replicas, 1),
			"lease-max": storeurl.Duration(&t.options.LeaseMax),
		}.Read(values)
	}
	return t, err
}

func (t target) open() (election.Backend, func() error, error) {
	connection, js, err := t.connect()
	if err != nil {
		return nil, nil, election.Permanent(err)
	}
	backend, err := New(js, t.options)
	if err != nil {
		connection.Close()
		return nil, nil, election.Permanent(err)
	}
	return backend, func() error {
		err := backend.Close()
		connection.Close()
		return err
	}, nil
}

// connect returns a connection that is tried for as long as nobody closes it.
func (t target) connect() (*nats.Conn, jetstream.JetStream, error) {
	settings := []nats.Option{nats.Name("conclave"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(timeoutDefault),
		nats.PingInterval(5 * time.Second), nats.IgnoreDiscoveredServers(), nats.IgnoreAuthErrorAbort(),
		// The library's own handler writes into the program's standard error what requests return.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if t.creds != "" {
		settings = append(settings, nats.UserCredentials(t.creds))
	}
	connection, err := nats.Connect(t.servers, settings...)
	if err != nil {
		return nil, nil, fmt.Errorf("nats: connect: %w; write for example %s", err, form.Example)
	}
	var js jetstream.JetStream
	if t.domain == "" {
		js, err = jetstream.New(connection)
	} else {
		js, err = jetstream.NewWithDomain(connection, t.domain)
	}
	if err != nil {
		connection.Close()
		return nil, nil, err
	}
	return connection, js, nil
}

var errNoJetStream = errors.New("no answer from JetStream: is it enabled on the servers, and has the stream a leader?")
