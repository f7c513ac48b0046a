package partition_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/election/queue"
)

// On an ensemble whose leader is killed, the members keep what they own, and
// take over the partitions of a member that is gone.
func TestGroupOnAnEnsemble(t *testing.T) {
	e := conclavetest.Start(t)
	g := newGroup(t, 6, func(o *partition.Options) { o.MembersMax, o.MaxMoves = 4, 3 })
	open := func() *queue.Backend {
		b, err := zookeeper.New(e.Servers(), zookeeper.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	g.join(open(), "a")
	g.join(open(), "b")
	g.awaitEven("a", "b")
	e.Kill(e.Leader())
	e.Leader()
	gone := open()
	c := g.join(gone, "c")
	g.awaitEven("a", "b", "c")
	start := time.Now()
	_ = gone.Close() // as if the process had ended
	c.stop()
	g.awaitEven("a", "b")
	t.Logf("taken over after %v", time.Since(start))
}
