// Package etcd elects on etcd.
//
// New takes an etcd client. Every election is a queue of keys, one for each candidate. A key's
// value is the candidate's id, and the key disappears with a lease of its own:
//
//	billing/nightly/694d9f2c6d0b5a01    created at revision 17: leads
//	billing/nightly/1c0b9a7734f05e11    created at 23: waits for 17 to go
//
// Keys, values and order are those of the package concurrency of etcd's client and of "etcdctl
// elect billing/nightly ID", which may join the same queue. What these do not know is kept below
// "/conclave/", where no election's queue can be; it disappears with the lease too, except for
// the history. How candidates wait, lead and hand over is described in election/queue. The
// package concurrency is not used: its Campaign does not notice that its own lease has gone, and
// tells a candidate without a key that it leads.
//
// What always holds:
//
//	etcd-D1  Only the candidate with the key of the lowest create revision leads. All candidates
//	         follow this one rule, including those of etcdctl, and no operation of this package
//	         makes an exception.
//	etcd-D2  The token is the create revision of the candidate's key. Later
//	         leaders joined later, so tokens grow.
//	etcd-D3  A candidate leads only after a transaction, decided by a quorum, has found its key
//	         with that create revision, and no key before it. A candidate whose lease ended while
//	         it waited is never told that it leads.
//	etcd-D4  The id of a claim's lease is derived from its nonce. So whatever answer was lost,
//	         revoking that lease removes everything of the claim, and a request that is still on
//	         its way finds no lease to attach a key to.
//	etcd-D5  The lease counts from before the keep-alive was sent, for as long as its answer says.
//	         An etcd server asks the quorum whether it leads before it extends a lease, and the
//	         next leader of etcd extends all leases again: they end later than the candidate
//	         assumes, never earlier. (Servers before 3.5.10 do not ask; with them an old leader
//	         that is partitioned may extend a lease that has ended.)
//	etcd-D6  A nominee comes to the front of the queue because the candidates before it, if they
//	         are of this package, are sent to its end, where they get later tokens.
//	etcd-D7  Renewals write nothing. The stream of a keep-alive is kept for the next one, because
//	         a client authenticates with its user and password for each stream that it opens. It
//	         carries one request at a time, and a request that is not answered in time ends it.
//	etcd-D8  If a request of a claim has no answer after an eighth of the lease, or after a second,
//	         it is sent again in addition to the first. So one silent server of several costs no
//	         leadership, and each request may be carried out more than once, except the one that
//	         makes the lease (etcd-D4).
//
// The revision starts again if the servers' data is lost, and goes back with a
// snapshot unless it is restored with "etcdutl snapshot restore --bump-revision".
//
// Beware of "etcdctl elect" itself: it does not notice when an operator deletes its key, and then
// leads at the same time as others.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/redact"
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Prefix comes before the name of every election, for instance "services/". Default none, as
	// with "etcdctl elect".
	Prefix string
}

// New returns a backend on a client, which the caller keeps and closes. Set the client's
// DialKeepAliveTime, or a link that fails silently is noticed late. Set grpc.WithConnectParams in
// its DialOptions, with a Backoff.MaxDelay of about a second: gRPC's default is two minutes, for
// which nobody might lead although etcd is back.
func New(client *clientv3.Client, options Options) *queue.Backend {
	s := newStore(client, options)
	return queue.New(s, queue.Options{Close: func(bool) error {
		s.keepAlives.close()
		return nil
	}})
}

// Timing of the client that Open makes. gRPC does not allow less than ten seconds between
// heartbeats. dialTimeout is how long a connection attempt may take. The pause before the
// next attempt is at most connectPause, and random, because a cluster has many clients.
const (
	dialTimeout      = 5 * time.Second
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
	connectPause     = time.Second
)

var connectParams = grpc.ConnectParams{MinConnectTimeout: dialTimeout,
	Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: connectPause}}

// Open returns a backend on the servers of a URL, and a function that closes the backend and its
// client:
//
//	etcd://host:2379,host:2379/services
//
// The path, with a slash after it, becomes Options.Prefix. User, password and TLS files are those
// that etcdctl takes from the environment: ETCDCTL_USER, ETCDCTL_PASSWORD, ETCDCTL_CACERT,
// ETCDCTL_CERT, ETCDCTL_KEY; any of the files, or "?tls=true", turns TLS on, and "?tls=false" off.
// It connects on first use.
func Open(_ context.Context, address string) (election.Backend, func() error, error) {
	config, options, err := parse(address, os.Getenv)
	if err != nil {
		return nil, nil, form.Refuse(address, err)
	}
	client, err := connect(config)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: open %s: %w", redact.URL(address), err)
	}
	b := New(client, options)
	return b, func() error { return errors.Join(b.Close(), client.Close()) }, nil
}

// connect makes a client that makes no request before it is used. The library's New
// authenticates with user and password at once, and fails while etcd is down. Here it gets
// a token that no server knows, and the client fetches a valid one with its first request.
// Without any token, servers would take the client for the user of its certificate.
func connect(config clientv3.Config) (*clientv3.Client, error) {
	var made atomic.Bool
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string,
		request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if answer, ok := reply.(*etcdserverpb.AuthenticateResponse); ok && !made.Load() {
			answer.Token = "none"
			return nil
		}
		return invoke(ctx, method, request, reply, conn, options...)
	}))
	client, err := clientv3.New(config)
	made.Store(true)
	return client, err
}

// form describes the URLs.
var form = storeurl.Form{Backend: "etcd", Schemes: []string{"etcd"}, Example: "etcd://127.0.0.1:2379",
	Credentials: "ETCDCTL_USER and ETCDCTL_PASSWORD"}

// parse reads the configuration of a client from a URL and the environment.
func parse(address string, env func(string) string) (clientv3.Config, Options, error) {
	config := clientv3.Config{DialTimeout: dialTimeout, DialKeepAliveTime: keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(connectParams)}}
	rest, found := strings.CutPrefix(address, "etcd://")
	if !found {
		return config, Options{}, errors.New("it does not begin with etcd://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return config, Options{}, err
	}
	secure, chosen := false, values.Has("tls")
	if err := (storeurl.Parameters{"tls": storeurl.Bool(&secure)}).Read(values); err != nil {
		return config, Options{}, err
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return config, Options{}, form.HasCredentials()
	}
	var options Options
	if path != "" {
		options.Prefix = strings.TrimSuffix(path, "/") + "/"
	}
	if secure || !chosen {
		if config.TLS, err = tlsConfig(env, secure); err != nil {
			return config, options, err
		}
	}
	scheme := "http://"
	if config.TLS != nil {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if u, err := url.Parse(scheme + host); err != nil || u.Hostname() == "" || u.Port() == "" {
			return config, options, errors.New("a server is not host:port")
		}
		config.Endpoints = append(config.Endpoints, scheme+host)
	}
	var hasPassword bool
	config.Username, config.Password, hasPassword = strings.Cut(env("ETCDCTL_USER"), ":")
	if !hasPassword {
		config.Password = env("ETCDCTL_PASSWORD")
	}
	return config, options, nil
}

// tlsConfig returns nil if TLS is off.
func tlsConfig(env func(string) string, secure bool) (*tls.Config, error) {
	info := transport.TLSInfo{TrustedCAFile: env("ETCDCTL_CACERT"),
		CertFile: env("ETCDCTL_CERT"), KeyFile: env("ETCDCTL_KEY")}
	if !secure && info.Empty() && info.TrustedCAFile == "" {
		return nil, nil
	}
	return info.ClientConfig()
}
