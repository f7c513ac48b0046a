// Package nats elects on NATS JetStream, 2.10 and later.
//
// New takes a JetStream context, Open a URL. All elections are keys of one key-value bucket,
// whose revisions are the versions:
//
//	conclave_elections
//	    billing/nightly    the record as JSON
//	    =settled           the incarnation of the bucket that is adopted
//
// What always holds:
//
//	nats-J1  A write is one message that names the revision that it expects of its key; the leader
//	         of the stream refuses it if there is a later one. Revisions are numbers of the stream
//	         and do not come back when a key is deleted. Those of a bucket that is created again
//	         begin at the time of its creation in milliseconds, beyond those of the previous one.
//	nats-J2  Nothing expires in the server: the bucket has no TTL, and one that has a TTL is
//	         refused. If a server's clock were set forward, a value that expires by it would
//	         vanish under its leader; a waiter counts the lease on its own clock.
//	nats-J3  Reads go to the leader of the stream, even if the bucket allows direct reads, which
//	         any replica may answer with old data.
//	nats-J4  Until an incarnation of the bucket has been watched for LeaseMax, nobody is elected;
//	         leaders whose record is still there go on. By then, what may be forgotten has run
//	         out. The incarnation is when the bucket was created, and, if it is not replicated,
//	         which start of which server has it. If that cannot be seen, through a leaf node, a
//	         bucket without replicas is refused. So is one with several replicas in memory, which
//	         lose everything when most of them restart. A bucket that is used for the first time
//	         also makes its first candidate wait. A grant counts only if the incarnation was the
//	         same before and after its message.
//	nats-J5  A server that answers neither a request nor a ping is left for the next one of the
//	         URL, within the time of that request: one that is frozen would be noticed after 10
//	         to 15 s. Of a connection that New was given only the pings of its owner decide.
//
// A stream whose leading server has died or frozen takes no message until the others have elected
// another one: 6 to 14 s, measured with NATS 2.15, in which a lease below 30 s may be lost.
//
// A server answers before a write is on disk (sync_interval, two minutes by default). A bucket of
// three replicas loses acknowledged writes if most of them lose power at the same time, unless
// their configuration has "sync_interval: always". A replicated bucket keeps its incarnation in
// that case, so two could lead for one lease; tokens protect fenced resources.
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

// BucketDefault is the default name of the bucket.
const BucketDefault = "conclave_elections"

const (
	timeoutDefault = 5 * time.Second
	pollPause      = time.Second
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Bucket is the name of the key-value bucket. Default BucketDefault.
	Bucket string
	// Replicas is how many copies the bucket gets if it does not exist and is created: 1, 3 or 5.
	// Default 1; use 3 in a cluster.
	Replicas int
	// LeaseMax is the longest lease that may be asked for, and how long nobody is elected after
	// the bucket may have forgotten something. All candidates that share the bucket, in any
	// election, must use the same value, which nothing checks: the first that has waited for its
	// own LeaseMax ends the wait for all. Default 15 s.
	LeaseMax time.Duration
	// Timeout is how long one request may take. Default 5 s.
	Timeout time.Duration
}

// New returns a backend on JetStream. It sends nothing before first use. The connection stays the
// caller's: Close of the backend does not close it. Make the connection with
// nats.ReconnectBufSize(-1), because what cannot be sent now is better not sent later, and with
// nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort(): otherwise an outage, or two refusals of
// its credentials, close it and end every Run. nats.PingInterval and
// nats.MaxPingsOutstanding decide how soon it leaves a server that is frozen: with their defaults
// after up to six minutes, and no lease outlives that.
func New(js jetstream.JetStream, options Options) (*record.Backend, error) {
	s, err := newStore(js, options)
	if err != nil {
		return nil, err
	}
	return s.backend(), nil
}

func (s *store) backend() *record.Backend {
	return record.New(s, record.Options{Close: func() error {
		s.hub.Close()
		return nil
	}})
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

// form describes the URLs.
var form = storeurl.Form{Backend: "nats", Schemes: []string{"nats", "tls", "ws", "wss"},
	Example: "nats://user:password@host:4222,other:4222/?replicas=3 (tls:// and wss:// too)"}

// Open returns a backend on the servers of a URL, and a function that closes it. The credentials
// are in the URL, or in the file that creds=FILE or NATS_CREDS names. Further parameters:
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

// target is the content of a URL.
type target struct {
	servers string
	creds   string
	domain  string
	options Options
}

// parse does what net/url cannot: it reads several hosts with ports.
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
	s, err := t.store()
	if err != nil {
		return nil, nil, election.Permanent(err)
	}
	backend := s.backend()
	return backend, func() error {
		err := backend.Close()
		s.js.Conn().Close()
		return err
	}, nil
}

// store returns one with a connection of its own.
func (t target) store(more ...nats.Option) (*store, error) {
	connection, js, err := t.connect(more...)
	if err != nil {
		return nil, err
	}
	s, err := newStore(js, t.options)
	if err != nil {
		connection.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// connect returns a connection that tries to connect until it is closed.
func (t target) connect(more ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	settings := []nats.Option{nats.Name("conclave"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(nats.DefaultTimeout),
		nats.PingInterval(5 * time.Second), nats.IgnoreDiscoveredServers(), nats.IgnoreAuthErrorAbort(),
		// The library's own handler writes errors, which requests return anyway, to the
		// program's standard error.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if t.creds != "" {
		settings = append(settings, nats.UserCredentials(t.creds))
	}
	connection, err := nats.Connect(t.servers, append(settings, more...)...)
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
