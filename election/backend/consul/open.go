// Package consul elects on Consul.
//
// New takes a Consul client. Every election is one key that the leader's session locks, together
// with a queue of keys:
//
//	billing/nightly/.lock                                  locked by the leader
//	conclave/elections/billing%2Fnightly/line/0000/NONCE   a waiter
//	conclave/elections/billing%2Fnightly/line/0500/NONCE   one of priority 500
//	conclave/elections/billing%2Fnightly/metadata/NONCE    what a candidate says of itself, if anything
//	conclave/elections/billing%2Fnightly/request           what an operator asks
//	conclave/elections/billing%2Fnightly/history           never removed
//
// The key and its flags are those of api.Lock and of "consul lock billing/nightly", which may
// compete with our candidates. The key of a waiter is locked by the waiter's session and
// disappears with it; keys that no session locks (as "consul kv import" restores them) are
// ignored. How candidates wait, lead and hand over is described in election/queue.
//
// What always holds:
//
//	consul-C1  Only the candidate whose session locks the key leads; "consul lock" follows the
//	           same rule. A grant is made and proved by transactions that a quorum decided.
//	consul-C2  The token is the index of the transaction that locked the key: Consul's own counter
//	           of all writes, which keeps growing when the key is deleted, as "consul lock" does
//	           when it ends. (The key's LockIndex would start again.)
//	consul-C3  The lease is the session's TTL, counted from before the renewal was sent, and every
//	           renewal is sent within a TTL of the previous one and followed by a quorum read. The
//	           servers wait two TTLs before they end a session. The second TTL is a reserve for a
//	           server that was partitioned or paused, does not know yet that it no longer leads,
//	           and accepts a renewal: the server that leads instead has restarted all sessions
//	           since the previous renewal. So a leader that was killed is replaced after up to two
//	           TTLs.
//	consul-C4  A session depends on its TTL, not on the health of a node: with Consul's default,
//	           gossip about a failed agent ends a session long before its TTL, while its holder
//	           goes on leading. But it belongs to the node of the agent that the candidate uses,
//	           and disappears with it.
//	consul-C5  Each waiter watches its predecessor, and only the first one watches the key: a
//	           hand-over wakes two, however many there are. While nothing has changed, the quorum
//	           read that follows a renewal is of what the waiter watches, not of all waiters.
//	consul-C6  Release hands the key over to a nominee within one transaction:
//	           neither "consul lock" nor another waiter can come between.
//	consul-C7  A release that has failed goes on in the background, for two leases at most.
//
// The lock-delay keeps a key locked for some time after the session of its holder has ended in
// any way other than by a release. It serves holders that cannot know their deadline. Ours have
// stopped before their TTL is over, so it is off by default, and a takeover after a death takes
// no longer than consul-C3 says. Set it if operators destroy sessions or remove nodes from the
// catalogue: a leader then learns of its loss only as fast as the news travels.
//
// An agent that is stopped with SIGTERM, as by "systemctl stop consul", does the same: it leaves,
// and all sessions made through it end at once. A leader that uses it cannot be told, and leads
// until its deadline, at the same time as the next one. Configure agents with leave_on_terminate
// = false, which is the default of servers only, or set LockDelay to the lease.
//
// The index goes back if the servers' data is lost, or if a snapshot is restored into a new
// cluster.
package consul

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/redact"
)

// LeaseMinDefault is the shortest session TTL that servers allow unless their session_ttl_min
// says otherwise.
const LeaseMinDefault = 10 * time.Second

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Prefix comes before all keys, for instance "services/". Default none.
	Prefix string
	// LeaseMin is the session_ttl_min of the servers. Default
	// LeaseMinDefault.
	LeaseMin time.Duration
	// LockDelay is how long others are kept out after a session has ended without a release; at
	// most a minute. Default none, which is one millisecond.
	LockDelay time.Duration
}

// New returns a backend on a client. An agent allows 200 connections from one address
// (limits.http_max_conns_per_client). A waiter has one all the time, the first waiter, the leader
// and an observer have two each, and each needs another one for a moment when it renews or reads. A
// backend that would have more than 96 all the time polls instead, every second or, if it polls
// more than 50 elections, all of them 50 times a second. If a process has hundreds of elections,
// limit MaxConnsPerHost of the client's transport, as Open does.
func New(client *api.Client, options Options) *queue.Backend {
	s := newStore(client, options)
	return queue.New(s, queue.Options{Close: s.close})
}

func newStore(client *api.Client, options Options) *store {
	if options.LeaseMin == 0 {
		options.LeaseMin = LeaseMinDefault
	}
	options.LockDelay = max(options.LockDelay, time.Millisecond)
	s := &store{client: client, options: options, keys: keys{options.Prefix}, now: clock.Now}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// close ends what goes on in the background.
func (s *store) close(bool) error {
	s.end()
	return nil
}

// Open returns a backend on the agent of a URL, and a function that closes it:
//
//	consul://127.0.0.1:8500/services?lease-min=2s&lock-delay=5s&tls=true
//
// The path, with a slash after it, becomes Options.Prefix. Token, TLS files, namespace and the
// like are those that the consul program takes from the environment: CONSUL_HTTP_TOKEN,
// CONSUL_HTTP_SSL, CONSUL_CACERT and so on; tls=false turns TLS off whatever these say. It
// connects on first use.
func Open(_ context.Context, address string) (election.Backend, func() error, error) {
	config := api.DefaultConfig()
	config.Transport.MaxConnsPerHost, config.Transport.MaxIdleConnsPerHost = connectionsMax, connectionsMax-queriesOfWaiters
	options, err := parse(address, config)
	if err != nil {
		return nil, nil, form.Refuse(address, err)
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, nil, fmt.Errorf("consul: open %s: %w", redact.URL(address), err)
	}
	b := New(client, options)
	return b, b.Close, nil
}

// connectionsMax is how many connections a client of Open has at most: those of blocking queries,
// and some for what is answered at once, which waits for one of them. The agent would refuse some
// of the first reads of hundreds of elections otherwise.
const connectionsMax = queriesOfWaiters + 32

// form describes the URLs.
var form = storeurl.Form{Backend: "consul", Schemes: []string{"consul"}, Example: "consul://127.0.0.1:8500",
	Credentials: "CONSUL_HTTP_TOKEN or CONSUL_HTTP_AUTH"}

// parse reads a URL into the configuration of a client.
func parse(address string, config *api.Config) (options Options, err error) {
	u, values, err := form.Parse(address)
	if err != nil {
		return options, err
	}
	if u.Hostname() == "" || u.Port() == "" {
		return options, fmt.Errorf("the agent %q is not host:port", u.Host)
	}
	config.Address = u.Host
	if path := strings.Trim(u.Path, "/"); path != "" {
		options.Prefix = path + "/"
	}
	secure, chosen := false, values.Has("tls")
	err = storeurl.Parameters{
		"lease-min":  storeurl.Duration(&options.LeaseMin),
		"lock-delay": storeurl.Duration(&options.LockDelay),
		"tls":        storeurl.Bool(&secure),
	}.Read(values)
	switch {
	case secure:
		config.Scheme = "https"
	case chosen:
		config.Scheme = "http"
	}
	return options, err
}
