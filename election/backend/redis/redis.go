// Package redis elects on one primary of Redis or Valkey, 5 and later.
//
// New takes a client, Open a URL. All elections are fields of one hash:
//
//	conclave:elections
//	    billing/nightly    <version> <nonce of the holder> <record as JSON>
//	    (empty name)       the incarnation of the server that is adopted
//
// What always holds:
//
//	redis-D1  A write is one script that compares the version and sets the field; the server runs
//	          it as one step. The version is random and chosen before the script is sent: no
//	          version comes back, and a script that is sent twice takes effect once.
//	redis-D2  Nothing expires in the server. A key with a time to live disappears by the server's
//	          clock, which may be set forward; a waiter counts the lease on its own clock.
//	redis-D3  Until an incarnation of the server (its run id and its replication id, which a
//	          restart or a promotion changes) has been watched for LeaseMax, nobody is elected;
//	          leaders whose record is still there go on. By then, what the server may have
//	          forgotten has run out. The same hash records that the incarnation is adopted: a
//	          server that was flushed, or has evicted the hash, has forgotten that as well, and is
//	          watched from then on, however long it was known before. A server that is used for
//	          the first time also makes its first candidate wait, and so does a primary that has
//	          had no replica for repl-backlog-ttl (an hour by default) and gets one again, because
//	          its replication id then changes. Set repl-backlog-ttl 0 if a free election must not
//	          wait for that.
//
// So one primary elects one leader at a time, with or without persistence, even when a replica
// that lagged behind is promoted. Two cases are not covered. A primary that is partitioned from
// its replicas, while one of them is promoted, continues to serve the clients on its side, and
// two lead for as long as it does. The same goes for a primary that was only paused or
// partitioned and to which clients return before it is demoted or restarted: it is the same
// incarnation and does not know what it has missed. Make it refuse writes that no replica
// confirms (Options.Replicas, or min-replicas-to-write with a min-replicas-max-lag below
// Sentinel's down-after-milliseconds); tokens protect fenced resources in any case. The second
// case is an operator that deletes the hash field under a leader.
//
// Why not Redlock: it counts a majority of keys that expire by the clocks of servers which forget
// when they restart, and it gives no token. Its mutual exclusion depends on timing alone. One
// record with compare and set, on one primary, needs no clock but the waiter's.
package redis

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/backend/internal/watchhub"
	"github.com/conclave-project/conclave/election/record"
	"github.com/redis/go-redis/v9"
)

// KeyDefault is the default key of the hash, and the default channel of news.
const KeyDefault = "conclave:elections"

const (
	timeoutDefault = 5 * time.Second
	pollPause      = time.Second
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Key is the key of the hash, and the name of the channel. Default KeyDefault.
	Key string
	// LeaseMax is the longest lease that may be asked for, and how long nobody is elected after a
	// restart or failover of the server. All candidates that share the hash, in any election,
	// must use the same value, which nothing checks: the first that has waited for its own
	// LeaseMax ends the wait for all, and a value below another candidate's lease lets somebody
	// be elected while that candidate leads. Default 15 s.
	LeaseMax time.Duration
	// Replicas is how many replicas have to confirm each write, by WAIT, before it counts. It
	// cannot be used with a cluster. Default 0.
	Replicas int
	// Timeout is how long one command may take. Default 5 s.
	Timeout time.Duration
}

// New returns a backend on a client, which must reach the primary: a client of one server, of
// Sentinels, or of a cluster, where the hash lies on one shard. A Ring is refused: its servers
// know nothing of each other. It connects on first use. The client stays the caller's: Close of
// the backend does not close it. Set the client's ContextTimeoutEnabled: without it a request
// lasts for its ReadTimeout, whatever its context.
func New(client redis.UniversalClient, options Options) (*record.Backend, error) {
	s, err := newStore(client, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{Close: func() error {
		s.hub.Close()
		return nil
	}}), nil
}

func newStore(client redis.UniversalClient, options Options) (*store, error) {
	if options.Timeout < 0 || options.LeaseMax < 0 || options.Replicas < 0 {
		return nil, errors.New("redis: Timeout, LeaseMax and Replicas must not be negative; leave them out for the defaults")
	}
	if options.Key == "" {
		options.Key = KeyDefault
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	switch client.(type) {
	case *redis.ClusterClient:
		if options.Replicas > 0 {
			return nil, errors.New("redis: Replicas does not go with a cluster: WAIT has no key by which to find the shard")
		}
	case *redis.Ring:
		return nil, errors.New("redis: a Ring goes to another server when it does not reach one, and others do reach it: " +
			"two would lead; give a client of one of its servers")
	}
	s := &store{client: client, options: options, watch: incarnation.NewWatch(options.LeaseMax)}
	s.hub = watchhub.New(s.listen, pollPause)
	return s, nil
}

// form describes the URLs.
var form = storeurl.Form{Backend: "redis", Schemes: []string{"redis", "rediss", "unix"},
	Example: "redis://user:password@host:6379/0 (rediss:// with TLS, or redis://sentinel:26379?master_name=NAME)"}

// Open returns a backend on the server of a URL, and a function that closes it. The password may
// be in REDISCLI_AUTH, as for redis-cli. With master_name=NAME the URL is that of a Sentinel
// (addr=host:port names more of them). It takes the parameters of go-redis, and also:
//
//	key=NAME          see Options.Key
//	lease-max=15s     see Options.LeaseMax
//	replicas=1        see Options.Replicas
//
// Open does not connect. The backend sends nothing twice.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	client, options, err := parse(text)
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	backend, err := New(client, options)
	if err != nil {
		return nil, nil, errors.Join(election.Permanent(err), client.Close())
	}
	return backend, func() error { return errors.Join(backend.Close(), client.Close()) }, nil
}

// parse creates a client from a URL, without connecting.
func parse(text string) (*redis.Client, Options, error) {
	var options Options
	u, query, err := form.Parse(text)
	if err == nil {
		err = storeurl.Parameters{
			"key":       storeurl.Text(&options.Key),
			"lease-max": storeurl.Duration(&options.LeaseMax),
			"replicas":  storeurl.Count(&options.Replicas, 0),
		}.Take(query)
	}
	if err != nil {
		return nil, options, err
	}
	u.RawQuery = query.Encode()
	if query.Has("master_name") {
		return sentinelClient(u.String(), options)
	}
	config, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, options, err
	}
	setDefault(&config.Password, os.Getenv("REDISCLI_AUTH"))
	setDefault(&config.ClientName, "conclave")
	config.MaxRetries, config.ContextTimeoutEnabled, config.DisableIdentity = -1, true, true
	return redis.NewClient(config), options, nil
}

func sentinelClient(text string, options Options) (*redis.Client, Options, error) {
	config, err := redis.ParseFailoverURL(text)
	if err != nil {
		return nil, options, err
	}
	setDefault(&config.Password, os.Getenv("REDISCLI_AUTH"))
	setDefault(&config.ClientName, "conclave")
	config.MaxRetries, config.ContextTimeoutEnabled, config.DisableIdentity = -1, true, true
	return redis.NewFailoverClient(config), options, nil
}

func setDefault(text *string, value string) {
	if *text == "" {
		*text = value
	}
}
