//go:build linux && interop

package client

import (
	"testing"

	"github.com/conclave-project/conclave/test/servers"
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
