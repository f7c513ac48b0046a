// Package consul elects on Consul.
//
// In goes a client of Consul; every election is one key that the leader's
// session locks, and a queue of keys beside it:
//
//	billing/nightly/.lock                                  locked by the leader
//	conclave/elections/billing%2Fnightly/line/0000/NONCE   a waiter
//	conclave/elections/billing%2Fnightly/line/0500/NONCE   one of priority 500
//	conclave/elections/billing%2Fnightly/metadata/NONCE    what a candidate says of itself, if anything
//	conclave/elections/billing%2Fnightly/request           what an operator asks
//	conclave/elections/billing%2Fnightly/history           never removed
//
// The key and its flags are those of api.Lock and of "consul lock
// billing/nightly", which may stand beside our candidates. The keys of waiters,
// their keys, are locked by the session of the waiter and go with it; those that
// no session locks ("consul kv import" puts such back) are ignored. How
// candidates wait, lead and hand over is in election/queue.
//
// What always holds:
//
//	consul-C1  The candidate whose session locks the key leads, and nobody else;
//	           "consul lock" obeys the same rule. A grant is given and proved by
//	           transactions that were decided by a quorum.
//	consul-C2  The token is the index of the transaction that locked the key:
//	           Consul's own counter of all writes, which grows on when the key
//	           is deleted, as "consul lock" does at its end. (The key's
//	           LockIndex starts again then.)
//	consul-C3  The lease is the session's TTL, counted from before the renewal
//	           was sent, and every renewal is sent within a TTL of the one
//	           before and followed by a read by quorum. The servers wait two TTL
//	           before they end a session. The second one is in reserve for a
//	           server that was partitioned or paused, does not know yet that it
//	           leads no more, and says yes to a renewal: the server that leads
//	           instead has let all sessions begin again after the renewal
//	           before. So a leader that was killed is replaced after up to two
//	           TTL.
//	consul-C4  A session hangs on its TTL, not on the health of a node: with the
//	           default, gossip about a failed agent ends a session long before
//	           its TTL, while its holder goes on leading. But it belongs to the
//	           node of the agent that the candidate uses, and goes with it.
//	consul-C5  Each waiter watches its predecessor, and only the first one the
//	           key: a hand-over wakes two, however many there are.
//	consul-C6  Release hands the key over to a nominee within one transaction:
//	           neither "consul lock" nor another waiter can come between.
//
// The lock-delay keeps a key locked for some time after the session of its
// holder has ended in any other way than by a release. It serves holders that
// cannot know their deadline; ours have stopped before their TTL is over, so
// it is off by default and a hand-over after a death takes no longer than consul-C3
// says. Set it where operators destroy sessions or take nodes out of the
// catalogue: then a leader learns of its loss only as fast as news travel.
//
// An agent that is stopped with SIGTERM, as by "systemctl stop consul", does so: it
// leaves, and all sessions that were made by it end at once. A leader that uses
// it cannot be told, and leads until its deadline, beside the next one. Let agents
// have leave_on_terminate = false, which is the default of servers only, or set
// LockDelay to the lease.
//
// The index goes back when the servers' data is lost, or if a snapshot is
// restored into a new cluster.
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

// LeaseMinDefault is the shortest TTL of a session that servers allow unless
// their session_ttl_min says otherwise.
const LeaseMinDefault = 10 * time.Second

// Options of a backend. The zero value is good.
type Options struct {
	// Prefix comes before all keys, "services/" for instance. Default none.
	Prefix string
	// LeaseMin is the session_ttl_min of the servers. Default
	// LeaseMinDefault.
	LeaseMin time.Duration
	// LockDelay keeps others out for so long after a session has ended without
	// a release; at most a minute. Default none, which is one millisecond.
	LockDelay time.Duration
}

// New returns a backend on a client. An agent allows one address 200
// connections (limits.http_max_conns_per_client): a waiter needs one, the first
// one and the leader two.
func New(client *api.Client, options Options) *queue.Backend {
	return queue.New(newStore(client, options), queue.Options{})
}

func newStore(client *api.Client, options Options) *store {
	if options.LeaseMin == 0 {
		options.LeaseMin = LeaseMinDefault
	}
	options.LockDelay = max(options.LockDelay, time.Millisecond)
	return &store{client: client, options: options, keys: keys{options.Prefix}, now: clock.Now}
}

// Open returns a backend on the agent of a URL, and what closes it:
//
//	consul://127.0.0.1:8500/services?lease-min=2s&lock-delay=5s&tls=true
//
// The path, with a slash after it, becomes Options.Prefix. Token, TLS files,
// namespace and the like are those that the consul program takes from the
// environment: CONSUL_HTTP_TOKEN, CONSUL_HTTP_SSL, CONSUL_CACERT and so on. It
// connects when it is used.
func Open(_ context.Context, address string) (election.Backend, func() error, error) {
	config := api.DefaultConfig()
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

// form is what the URLs look like.
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
	var secure bool
	err = storeurl.Parameters{
		"lease-min":  storeurl.Duration(&options.LeaseMin),
		"lock-delay": storeurl.Duration(&options.LockDelay),
		"tls":        storeurl.Bool(&secure),
	}.Read(values)
	if secure {
		config.Scheme = "https"
	}
	return options, err
}
