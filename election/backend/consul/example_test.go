package consul_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/consul"
)

// One leader among all processes that run this program or "consul lock billing/nightly COMMAND".
func Example() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	backend := consul.New(client, consul.Options{})
	defer backend.Close()

	elector, err := election.New(backend, "billing/nightly", election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		fmt.Println("leading with token", lead.Token())
		<-ctx.Done()
		return nil
	})
	log.Print(err)
}

// A write in a transaction of the program's own. The store refuses it once the
// leadership is over, even if the leader still considers itself the leader.
func ExampleFence() {
	var client *api.Client // the program's own
	save := func(ctx context.Context, lead election.Leadership) error {
		leads, err := consul.Fence(lead)
		if err != nil {
			return err
		}
		put := &api.KVTxnOp{Verb: api.KVSet, Key: "billing/last", Value: []byte("2026-11")}
		done, _, _, err := client.KV().Txn(api.KVTxnOps{leads, put}, (&api.QueryOptions{}).WithContext(ctx))
		if err == nil && !done {
			err = election.ErrLost
		}
		return err
	}
	_ = save
}
