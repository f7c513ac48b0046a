//go:build linux && interop

package ensemble

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/servers"
)

// A Conclave server is down while a multi fails on a leader of Apache's. By the time this
// leader sends the transaction in the DIFF, it has changed it (review 26, F7).
func TestFailedMultiComesInADiff(t *testing.T) {
	for _, version := range []string{"J9", "J8"} {
		t.Run(version, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G "+version+" "+version)})
			s.startUnder(3)
			s.startRest()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c, err := client.Dial(ctx, s.e.Member(3).Addr, client.Options{SessionTimeout: 10 * time.Second})
			must(t, err)
			defer c.Close()
			_, _, err = c.Create(ctx, "/a", []byte("a"), client.CreateOptions{})
			must(t, err)
			must(t, s.e.Member(1).Kill())
			if _, err := c.Multi(ctx, client.SetOp("/a", []byte("some data"), -1), client.DeleteOp("/none", -1)); err == nil {
				t.Fatal("the multi has not failed")
			}
			_, _, err = c.Create(ctx, "/b", []byte("b"), client.CreateOptions{})
			must(t, err)
			must(t, s.e.Member(1).Launch(ctx))
			awaittest.Until(t, "the server that was away serves", func() bool {
				_, err := s.e.Member(1).Status()
				return err == nil
			})
			here, err := client.Dial(ctx, s.e.Member(1).Addr, client.Options{SessionTimeout: 10 * time.Second})
			must(t, err)
			defer here.Close()
			must(t, here.Sync(ctx, "/"))
			if data, _, err := here.Get(ctx, "/a"); err != nil || string(data) != "a" {
				t.Errorf("/a is %q, %v", data, err)
			}
		})
	}
}
