//go:build linux && conformance

package znode_test

import (
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestGuardInApacheZooKeeperLosesNoUpdate(t *testing.T) {
	s := stores.Start(t, "zookeeper")
	fencetest.Run(t, numbers(t, func() *client.Client {
		c, err := client.Dial(awaittest.Within(t), s.Addr, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}))
}
