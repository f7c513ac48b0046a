package server

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

// TestServerWhoseSessionsLookLikeTTLsIsRefused, as by ZooKeeper: its session numbers begin like
// the owner of a TTL znode.
func TestServerWhoseSessionsLookLikeTTLsIsRefused(t *testing.T) {
	for _, one := range []struct {
		id       quorum.ID
		extended bool
		refused  bool
	}{{254, true, false}, {255, false, false}, {255, true, true}, {511, true, true}, {511, false, false}} {
		var c Config
		c.ID, c.ExtendedTypes = one.id, one.extended
		err := c.check()
		if refused := err != nil && strings.Contains(err.Error(), "254 at most"); refused != one.refused {
			t.Errorf("server %d, extended types %t: %v", one.id, one.extended, err)
		}
	}
}
