package znode_test

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence/znode"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
)

// dial starts a server for an example and opens a session. A program only calls client.Dial.
func dial(ctx context.Context) (*client.Client, func(), error) {
	e, err := inprocess.Start(inprocess.Options{Servers: 1, Base: server.Default()})
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Dial(ctx, e.Addr(1), client.Options{})
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	return c, func() { _ = c.Close(); e.Close() }, nil
}

// Two leaders assign tasks to workers; one of them does not know yet that it no longer leads.
func ExampleClaim() {
	const zombie, leader election.Token = 33, 34
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, stop, err := dial(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	give := func(guard *znode.Guard, task string) {
		_, err := guard.Multi(ctx, client.CreateOp("/"+task, []byte("worker 1"), client.CreateOptions{}))
		fmt.Println(task, err)
	}
	old, err := znode.Claim(ctx, c, "/fence", zombie, nil) // the first thing a leader does
	if err != nil {
		fmt.Println(err)
		return
	}
	give(old, "sweep")
	now, err := znode.Claim(ctx, c, "/fence", leader, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	give(now, "wash")
	give(old, "paint")
	// Output:
	// sweep <nil>
	// wash <nil>
	// paint fence "/fence": token 33: the token is stale: a later leader has been here
}
