package command

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/redact"
)

// kind is a backend on the command line.
type kind struct {
	scheme  string // the scheme of its URLs
	also    string // another scheme for its URLs; "" for none
	example string // a URL
	about   string // a description in one line
	// operator: it supports elections, history, resign and transfer.
	operator bool
	// allWaiters: its views show all waiters.
	allWaiters bool
	// membersOnly: its members are the store, so only candidates can use it.
	membersOnly bool
	// port is the default port of its servers; "" if URLs do not name servers.
	port string
	// sdk: only conclave-stores links its client.
	sdk  bool
	open opener
}

// opener opens a backend from a URL; the returned function closes it.
type opener func(ctx context.Context, t target) (election.Backend, func() error, error)

// Open opens a backend from a URL; the returned function closes it.
type Open = func(ctx context.Context, url string) (election.Backend, func() error, error)

// linked opens the stores whose SDKs this program links, by the schemes of their URLs. Main
// sets it before anything else.
var linked map[string]Open

// target identifies a store on the command line.
type target struct {
	cli.Store
	auth     []client.Credential
	dial     dialFunc  // for zookeeper; nil without TLS
	distrust *distrust // for the servers that dial reaches
	proof    proofFunc // for zookeeper; nil without SASL
}

// backend describes a backend whose package provides T.
func backend[T election.Backend](scheme, example, about string, open opener) kind {
	var none T
	_, operator := any(none).(election.Operator)
	return kind{scheme: scheme, example: example, about: about, operator: operator, open: open}
}

// withSDK describes a backend that needs another project's client: conclave-stores links
// it, and conclave becomes conclave-stores to use it. All of these support operators.
func withSDK(scheme, example, about string) kind {
	return kind{scheme: scheme, example: example, about: about, operator: true,
		open: func(ctx context.Context, t target) (election.Backend, func() error, error) {
			if open := linked[scheme]; open != nil {
				return open(ctx, t.URL)
			}
			return nil, nil, becomeStores(scheme)
		}, sdk: true}
}

// showsLine marks a backend whose views show all waiters.
func (k kind) showsLine() kind {
	k.allWaiters = true
	return k
}

// orAs adds another scheme to a backend.
func (k kind) orAs(scheme string) kind {
	k.also = scheme
	return k
}

// servedAt sets the port of a backend whose URLs name servers.
func (k kind) servedAt(port string) kind {
	k.port = port
	return k
}

// byMembers marks a backend whose members are the store.
func (k kind) byMembers() kind {
	k.membersOnly = true
	return k
}

// backends are all backends for --store, in the order of the help.
var backends = []kind{
	backend[*file.Backend]("file", "file:///var/lib/conclave/elections",
		"a directory of a local disk, for the processes of one machine", openDir).showsLine(),
	backend[*queue.Backend]("zookeeper", "zookeeper://zk1:2181,zk2:2181/chroot",
		"Conclave or Apache ZooKeeper; zk:// for short, zookeeper+tls:// and zk+tls:// over TLS", openServers).showsLine(),
	backend[*peers.Backend]("peers", "peers://a@10.0.0.1:7400,b@10.0.0.2:7400,c@10.0.0.3:7400?dir=/var/lib/app",
		"no store: the processes elect among themselves, the first named is this one; for run, lock and elect", openPeers).byMembers(),
	withSDK("etcd", "etcd://etcd1:2379,etcd2:2379/elections",
		"etcd, in the queue that etcdctl elect uses too; user by ETCDCTL_USER, TLS by ETCDCTL_CACERT, _CERT, _KEY").showsLine().servedAt("2379"),
	withSDK("consul", "consul://127.0.0.1:8500/elections",
		"a key and a session, shared with consul lock; token and TLS by CONSUL_HTTP_TOKEN and its like").showsLine().servedAt("8500"),
	withSDK("kubernetes", "kubernetes://NAMESPACE?context=NAME",
		"Lease objects, shared with client-go; the API server is found as kubectl finds it"),
	withSDK("dynamodb", "dynamodb://conclave-elections?region=eu-central-1",
		"a table of DynamoDB; credentials are found as AWS's tools find them"),
	withSDK("azureblob", "azureblob://myaccount/mycontainer",
		"the lease of a blob, 15 s to 60 s; credentials are found as the az command finds them"),
	withSDK("s3", "s3://my-bucket/elections?region=eu-central-1",
		"objects of a bucket, written on condition; credentials are found as AWS's tools find them"),
	withSDK("gs", "gs://my-bucket/elections",
		"objects of a bucket of Google Cloud Storage, leases from 10 s; credentials are found as Google's tools find them"),
	withSDK("postgres", "postgres://user@db/app",
		"a table of PostgreSQL; the password and TLS are found as libpq finds them").orAs("postgresql").servedAt("5432"),
	withSDK("mysql", "mysql://user@db/app?tls=true",
		"a table of MySQL or MariaDB; the password by MYSQL_PWD").orAs("mariadb").servedAt("3306"),
	withSDK("sqlite", "sqlite:///var/lib/app/elections.db",
		"a table of a SQLite database on a local disk, for the processes of one machine"),
	withSDK("redis", "redis://redis1:6379/0",
		"one primary of Redis, or Valkey; rediss:// with TLS; docs/backends.md says what a failover can do").orAs("rediss").servedAt("6379"),
	withSDK("nats", "nats://nats1:4222,nats2:4222/?replicas=3",
		"keys of a JetStream bucket; credentials by creds=FILE or NATS_CREDS").servedAt("4222"),
}

// WithSDK returns the schemes of the stores that conclave-stores links.
func WithSDK() []string {
	var schemes []string
	for _, k := range backends {
		if k.sdk {
			schemes = append(schemes, k.scheme)
		}
	}
	return schemes
}

// ShowsWaiters reports whether the views of the store that a URL names show all
// waiters.
func ShowsWaiters(url string) (bool, error) {
	store, err := cli.ParseStore(url)
	if err != nil {
		return false, err
	}
	k, err := findBackend(store)
	return k.allWaiters, err
}

// findBackend returns the backend for a URL.
func findBackend(store cli.Store) (kind, error) {
	for _, k := range backends {
		if k.scheme == store.Scheme || k.also != "" && k.also == store.Scheme {
			return k, nil
		}
	}
	var schemes []string
	for _, k := range backends {
		schemes = append(schemes, k.scheme+"://")
	}
	return kind{}, cli.Usage("write zk://HOST:PORT or a URL with one of "+strings.Join(schemes, " "),
		"store %q: there is no backend %q", redact.URL(store.URL), store.Scheme)
}

// storeTable is the list of backends for the help.
func storeTable() string {
	var b strings.Builder
	for _, k := range backends {
		fmt.Fprintf(&b, "  %s\n      %s\n", k.example, k.about)
	}
	return strings.TrimRight(b.String(), "\n")
}

// operators lists the backends that support operators.
func operators() string {
	var names []string
	for _, k := range backends {
		if k.operator && !k.membersOnly {
			names = append(names, k.scheme)
		}
	}
	return strings.Join(names, ", ")
}

// openPeers opens a member of peers. An error in its URL is a wrong command line.
func openPeers(_ context.Context, t target) (election.Backend, func() error, error) {
	hint := "a URL of this store looks like peers://a@10.0.0.1:7400,b@10.0.0.2:7400,c@10.0.0.3:7400?dir=/var/lib/app"
	options, err := peers.ParseURL(t.URL)
	if err != nil {
		return nil, nil, cli.Usage(hint, "%w", err)
	}
	b, err := peers.New(options)
	switch {
	case err != nil && options.Dir == "":
		return nil, nil, cli.Usage(hint, "%w", err)
	case err != nil:
		return nil, nil, err
	}
	return b, b.Close, nil
}

func openServers(_ context.Context, t target) (election.Backend, func() error, error) {
	b, err := zookeeper.New(t.Servers, zookeeper.Options{Client: client.Options{Auth: t.auth, Dialer: t.dial, Proof: t.proof}})
	if err != nil {
		return nil, nil, cli.Usage("write --store zk://HOST:PORT", "%w", err)
	}
	return b, b.Close, nil
}

func openDir(_ context.Context, t target) (election.Backend, func() error, error) {
	dir := t.Dir
	if at, err := os.Stat(dir); err == nil && !at.IsDir() {
		return nil, nil, cli.Usage("name a directory of a local disk with --store file:///DIR", "%s is not a directory", dir)
	}
	if dir == "" {
		var err error
		if dir, err = file.DefaultDir(); err != nil {
			return nil, nil, cli.Failed(err, "or name a directory with --store file:///DIR")
		}
	}
	b, err := file.New(dir)
	if err != nil {
		return nil, nil, cli.Failed(err, "name a directory of a local disk with --store file:///DIR, or servers with --store zk://HOST:PORT")
	}
	return b, func() error { return nil }, nil
}
