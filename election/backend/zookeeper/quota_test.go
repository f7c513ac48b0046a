package zookeeper_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
)

// TestQuotaKeepsNobodyFromLeading (queue-Q8) when it leaves space for candidates but none
// for the history.
func TestQuotaKeepsNobodyFromLeading(t *testing.T) {
	addr := servertest.Start(t, func(config *server.Config) {
		config.TickTime, config.EnforceQuota = 100*time.Millisecond, true
	})
	c, ctx := operator(t, addr), awaittest.Within(t)
	quota := "/zookeeper/quota/conclave/zookeeper_"
	if _, _, err := c.CreateAll(ctx, "/conclave/elections/e", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for kind, text := range map[string]string{"limits": "count=-1,bytes=-1=;byteHardLimit=50;countHardLimit=-1", "stats": "count=0,bytes=0"} {
		if _, _, err := c.CreateAll(ctx, quota+kind, []byte(text), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, addr).(*queue.Backend)
	held, err := b.Acquire(ctx, claim("a", time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(ctx, election.Grant{Claim: held.Claim, Token: held.Token}); err != nil {
		t.Fatal(err)
	}
	if data, _, err := c.Get(ctx, "/conclave/elections/e"); err != nil || len(data) > 0 {
		t.Errorf("the quota was not enforced: %q, %v", data, err)
	}
}
