package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/conclave-project/conclave/election"
)

// Times of the client that Open makes. Servers end the link of a client that
// asks for signs of life more often than every five seconds.
const (
	dialTimeout      = 5 * time.Second
	keepAliveTime    = 5 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// Open returns a backend on the servers of a URL, and what closes both:
//
//	etcd://host:2379,host:2379/services
//
// The path, with a slash behind it, becomes Options.Prefix. User, password and
// TLS files are those that etcdctl takes from the environment: ETCDCTL_USER,
// ETCDCTL_PASSWORD, ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY; any of the
// files, or "?tls=true", turns TLS on. It connects when it is used.
func Open(_ context.Context, address string) (election.Backend, func() error, error) {
	config, options, err := parse(address, os.Getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: URL %q: %w; a good one is etcd://127.0.0.1:2379", address, err)
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: open %s: %w", address, err)
	}
	b := New(client, options)
	return b, func() error { return errors.Join(b.Close(), client.Close()) }, nil
}

// parse turns a URL and the environment into the configuration of a client.
func parse(address string, env func(string) string) (clientv3.Config, Options, error) {
	config := clientv3.Config{DialTimeout: dialTimeout, DialKeepAliveTime: keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout, Logger: zap.NewNop()}
	rest, found := strings.CutPrefix(address, "etcd://")
	if !found {
		return config, Options{}, errors.New("does not begin with etcd://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return config, Options{}, err
	}
	secure := values.Get("tls") == "true"
	values.Del("tls")
	if len(values) > 0 {
		return config, Options{}, fmt.Errorf("has unknown parameters %q", query)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	var options Options
	if path != "" {
		options.Prefix = strings.TrimSuffix(path, "/") + "/"
	}
	if config.TLS, err = tlsConfig(env, secure); err != nil {
		return config, options, err
	}
	scheme := "http://"
	if config.TLS != nil {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if u, err := url.Parse(scheme + host); err != nil || u.Hostname() == "" || u.Port() == "" || u.User != nil {
			return config, options, fmt.Errorf("has the server %q, which is not host:port", host)
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

// tlsConfig returns nil where TLS is off.
func tlsConfig(env func(string) string, secure bool) (*tls.Config, error) {
	info := transport.TLSInfo{TrustedCAFile: env("ETCDCTL_CACERT"),
		CertFile: env("ETCDCTL_CERT"), KeyFile: env("ETCDCTL_KEY")}
	if !secure && info.Empty() && info.TrustedCAFile == "" {
		return nil, nil
	}
	return info.ClientConfig()
}
