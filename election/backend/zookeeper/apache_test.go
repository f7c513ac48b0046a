//go:build linux && interop

package zookeeper_test

import (
	"testing"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/test/servers"
)

func TestZooKeeperBackendPassesTheSuiteOnApacheZooKeeper(t *testing.T) {
	s, err := servers.Start(t.Context(), servers.Apache(servers.Apache39), servers.Options{
		// Its own minimum session timeout, two ticks, is longer than the suite's lease.
		Config: []string{"tickTime=200", "maxClientCnxns=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
	chroot := freshChroot(t, s.Addr)
	electiontest.Run(t, electiontest.Suite{Open: open, OpenCut: openCut, URL: chroot, Elections: 1000})
}
