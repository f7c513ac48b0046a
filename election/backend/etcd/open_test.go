package etcd

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// TestURLTurnsTLSOff: what a URL says comes before ETCDCTL_CACERT.
func TestURLTurnsTLSOff(t *testing.T) {
	env := func(name string) string { return map[string]string{"ETCDCTL_CACERT": "no-such-file"}[name] }
	config, _, err := parse("etcd://a:2379?tls=false", env)
	if err != nil || config.TLS != nil || config.Endpoints[0] != "http://a:2379" {
		t.Errorf("TLS %v, servers %v, %v", config.TLS != nil, config.Endpoints, err)
	}
	if _, _, err := parse("etcd://a:2379", env); err == nil {
		t.Error("the file was not read")
	}
}

// TestServersThatComeBackAreTriedWithinSeconds: they were unreachable for ten minutes,
// by which time gRPC's own pauses have grown to two.
func TestServersThatComeBackAreTriedWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _, err := parse("etcd://etcd1:2379", os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		tried := make(chan time.Time)
		var back atomic.Bool
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if back.Load() {
				tried <- time.Now()
			}
			return nil, errors.New("no route to host")
		}))
		client, err := connect(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = client.Get(ctx, "a key")
		}()
		time.Sleep(10 * time.Minute)
		began := time.Now()
		back.Store(true)
		if waited := (<-tried).Sub(began); waited > 2*time.Second {
			t.Errorf("the next try came %v after the servers", waited)
		}
		back.Store(false)
		cancel()
		<-asked
		_ = client.Close()
	})
}
