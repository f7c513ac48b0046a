package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// leaseSeconds is the time to live of the leases that a load creates.
const leaseSeconds = 10

// etcdStore is one connection to an etcd server, with a lease.
type etcdStore struct {
	client *clientv3.Client
	own    clientv3.LeaseID
}

func dialEtcd(ctx context.Context, addr string) (store, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	granted, err := client.Grant(ctx, 10*leaseSeconds)
	if err != nil {
		return nil, err
	}
	return &etcdStore{client, granted.ID}, nil
}

func (s *etcdStore) close() { _ = s.client.Close() }

func (s *etcdStore) read(ctx context.Context, key int, options ...clientv3.OpOption) error {
	answer, err := s.client.Get(ctx, keyName(fmt.Sprint(key)), options...)
	if err == nil && len(answer.Kvs) == 0 {
		err = errNone
	}
	return err
}

func (s *etcdStore) get(ctx context.Context, key int) error {
	return s.read(ctx, key, clientv3.WithSerializable())
}

func (s *etcdStore) getLatest(ctx context.Context, key int) error { return s.read(ctx, key) }

func (s *etcdStore) put(ctx context.Context, name string, data []byte, options ...clientv3.OpOption) error {
	_, err := s.client.Put(ctx, keyName(name), string(data), options...)
	return err
}

func (s *etcdStore) set(ctx context.Context, key int, data []byte) error {
	return s.put(ctx, fmt.Sprint(key), data)
}

func (s *etcdStore) create(ctx context.Context, name string, data []byte) error {
	return s.put(ctx, name, data)
}

func (s *etcdStore) hold(ctx context.Context, name string, data []byte) error {
	if err := s.put(ctx, name, data, clientv3.WithLease(s.own)); err != nil {
		return err
	}
	_, err := s.client.Delete(ctx, keyName(name))
	return err
}

func (s *etcdStore) lease(ctx context.Context, name string, data []byte) error {
	granted, err := s.client.Grant(ctx, leaseSeconds)
	if err != nil {
		return err
	}
	if err := s.put(ctx, name, data, clientv3.WithLease(granted.ID)); err != nil {
		return err
	}
	_, err = s.client.Revoke(ctx, granted.ID)
	return err
}

func (s *etcdStore) watch(ctx context.Context, key int, told func()) error {
	events := s.client.Watch(ctx, keyName(fmt.Sprint(key)), clientv3.WithCreatedNotify())
	if answer := <-events; answer.Err() != nil {
		return answer.Err()
	}
	go func() {
		for answer := range events {
			for range answer.Events {
				told()
			}
		}
	}()
	return nil
}

func keyName(name string) string { return "/load/" + name }
