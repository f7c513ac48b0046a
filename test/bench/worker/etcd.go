package main

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdOwn is clientv3/concurrency: an Election on a Session for each candidate, as in
// etcdctl elect.
type etcdOwn struct{ client *clientv3.Client }

func openEtcd(_ context.Context, url string) (way, error) {
	addrs := strings.Split(strings.TrimPrefix(url, "etcd://"), ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	return etcdOwn{client}, err
}

func (o etcdOwn) close() error { return o.client.Close() }

func (o etcdOwn) campaign(ctx context.Context, e entrant) error {
	for ctx.Err() == nil {
		session, err := concurrency.NewSession(o.client, concurrency.WithTTL(int(e.lease/time.Second)), concurrency.WithContext(ctx))
		if err != nil {
			continue // the client's own timeout has passed
		}
		if err := concurrency.NewElection(session, "/own/"+e.election).Campaign(ctx, e.id); err == nil {
			e.led()
			select {
			case <-session.Done():
			case <-ctx.Done():
			}
		}
		_ = session.Close() // otherwise it expires
	}
	return nil
}
