//go:build linux && interop

package client

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

func TestTheSuitePassesAgainstApacheZooKeeper(t *testing.T) {
	for _, version := range []string{servers.Apache39, servers.Apache38} {
		t.Run(version, func(t *testing.T) {
			s, err := servers.Start(t.Context(), servers.Apache(version), servers.Options{
				Properties: map[string]string{"zookeeper.extendedTypesEnabled": "true"},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Kill() })
			runSuite(t, s.Addr)
		})
	}
}

func TestASessionOutlivesApacheZooKeeperKilled(t *testing.T) {
	s, err := servers.Start(t.Context(), servers.Apache(servers.Apache39), servers.Options{})
	must(t, err)
	t.Cleanup(func() { s.Kill() })
	c, ctx := dialed(t, s.Addr, Options{SessionTimeout: 20 * time.Second}), awaittest.Within(t)
	path, _, err := c.Create(ctx, "/e-", nil, CreateOptions{Mode: zk.EphemeralSequential})
	must(t, err)
	_, _, w, err := c.GetW(ctx, path)
	must(t, err)
	id := c.SessionID()
	s.Crash()
	must(t, s.Restart(ctx))
	stat, err := c.Set(ctx, path, nil, -1)
	must(t, err)
	if c.SessionID() != id || stat.Version != 1 {
		t.Errorf("session %v, stat %+v", c.SessionID(), stat)
	}
	wantEvent(t, w, zk.EventNodeDataChanged, path)
}
