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

// TestServersThatComeBackAreTriedWithinSeconds: after ten minutes without a way to them,
// when gRPC's own pauses have grown to two.
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
