// Command etcdlock is a process of the experiment with pauses (package
// election/electiontest/lostupdate) that uses etcd's own lock, like etcdctl lock. It holds
// the lock for a second at a time, so all processes get their turn.
//
//	etcdlock HOST:PORT REGISTERS
//
// Its token is the revision of etcd at which it got the lock.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
)

const (
	leaseSeconds = 2
	holdFor      = time.Second
	retryAfter   = 50 * time.Millisecond
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		}
		cancel()
	}()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the lock again and again until the context ends.
func run(ctx context.Context, server, registers string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	worker, err := lostupdate.Dial(registers)
	if err != nil {
		return err
	}
	defer worker.Close()
	for ctx.Err() == nil {
		err := once(ctx, client, worker)
		if err != nil && ctx.Err() == nil && !errors.Is(err, lostupdate.ErrStale) {
			fmt.Fprintln(os.Stderr, "etcdlock:", err)
			time.Sleep(retryAfter)
		}
	}
	return nil
}

// once takes the lock, works while it holds it, and releases it.
func once(ctx context.Context, client *clientv3.Client, worker *lostupdate.Worker) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(leaseSeconds))
	if err != nil {
		return err
	}
	defer session.Close()
	lock := concurrency.NewMutex(session, "/experiment")
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	token := uint64(lock.Header().Revision)
	fmt.Println("elected", token)
	held := func() bool {
		select {
		case <-session.Done():
			return false
		default:
			return true
		}
	}
	for end := time.Now().Add(holdFor); err == nil && ctx.Err() == nil && held() && time.Now().Before(end); {
		err = worker.Turn(token, held)
	}
	return errors.Join(err, lock.Unlock(context.WithoutCancel(ctx)))
}
