package conclavetest_test

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/zk"
)

// The body of a test: an ephemeral znode must survive when the leader is
// killed, and must be deleted when its session ends.
func ExampleStart() {
	test := func(t *testing.T) {
		ctx := context.Background()
		e := conclavetest.Start(t, conclavetest.Servers(3))
		worker, watcher := e.Client(t), e.Client(t)

		if _, _, err := worker.Create(ctx, "/worker", nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
			t.Fatal(err)
		}
		e.Kill(e.Leader())
		_, exists, gone, err := watcher.ExistsW(ctx, "/worker")
		if err != nil || !exists {
			t.Fatal("the worker is gone with the leader", err)
		}
		e.ExpireSession(worker.SessionID())
		if event := <-gone.Events(); event.Type != zk.EventNodeDeleted {
			t.Fatal(event)
		}
	}
	_ = test
}
