package main

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// zooKeeperStore is one session with a server.
type zooKeeperStore struct {
	client *client.Client
	addr   string
}

func dialZooKeeper(ctx context.Context, addr string) (store, error) {
	c, err := client.Dial(ctx, addr, client.Options{SessionTimeout: leaseSeconds * time.Second})
	return &zooKeeperStore{c, addr}, err
}

func (s *zooKeeperStore) close() { _ = s.client.Close() }

func (s *zooKeeperStore) get(ctx context.Context, key int) error {
	_, _, err := s.client.Get(ctx, keyName(fmt.Sprint(key)))
	return err
}

// getLatest sends both requests at once: they are answered in order.
func (s *zooKeeperStore) getLatest(ctx context.Context, key int) error {
	path := keyName(fmt.Sprint(key))
	sync, err := s.client.Submit(ctx, zk.Request{Op: zk.OpSync, Path: path})
	if err != nil {
		return err
	}
	if err := s.get(ctx, key); err != nil {
		return err
	}
	_, err = sync.Wait(ctx)
	return err
}

func (s *zooKeeperStore) set(ctx context.Context, key int, data []byte) error {
	_, err := s.client.Set(ctx, keyName(fmt.Sprint(key)), data, -1)
	return err
}

func (s *zooKeeperStore) create(ctx context.Context, name string, data []byte) error {
	_, _, err := s.client.CreateAll(ctx, keyName(name), data, client.CreateOptions{})
	return err
}

func (s *zooKeeperStore) hold(ctx context.Context, name string, data []byte) error {
	return hold(ctx, s.client, name, data, true)
}

func hold(ctx context.Context, c *client.Client, name string, data []byte, takeAway bool) error {
	_, _, err := c.Create(ctx, keyName(name), data, client.CreateOptions{Mode: zk.Ephemeral})
	if err == nil && takeAway {
		err = c.Delete(ctx, keyName(name), -1)
	}
	return err
}

// lease opens and closes a session, on a connection of its own.
func (s *zooKeeperStore) lease(ctx context.Context, name string, data []byte) error {
	c, err := client.Dial(ctx, s.addr, client.Options{SessionTimeout: leaseSeconds * time.Second})
	if err != nil {
		return err
	}
	if err := hold(ctx, c, name, data, false); err != nil {
		return err
	}
	return c.Close()
}

func (s *zooKeeperStore) watch(ctx context.Context, key int, told func()) error {
	w, err := s.client.Watch(ctx, keyName(fmt.Sprint(key)), zk.WatchPersistent)
	if err != nil {
		return err
	}
	go func() {
		for range w.Events() {
			told()
		}
	}()
	return nil
}
