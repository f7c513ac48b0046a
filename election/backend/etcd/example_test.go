package etcd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
)

// One leader among all processes that run this program or "etcdctl elect billing/nightly ID".
func Example() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"127.0.0.1:2379"},
		DialKeepAliveTime: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	backend := etcd.New(client, etcd.Options{})
	defer backend.Close()

	elector, err := election.New(backend, "billing/nightly", election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		// Whatever is written carries the token, so that an older one can be refused.
		fmt.Println("leading with token", lead.Token())
		<-ctx.Done()
		return nil
	})
	log.Print(err)
}

// A write in a transaction of the program's own, on any client of the cluster. The store
// refuses it once the leadership is over, even if the leader still considers itself the leader.
func ExampleFence() {
	var client *clientv3.Client // the program's own
	save := func(ctx context.Context, lead election.Leadership) error {
		leads, err := etcd.Fence(lead)
		if err != nil {
			return err
		}
		answer, err := client.Txn(ctx).If(leads).Then(clientv3.OpPut("billing/last", "2026-11")).Commit()
		if err == nil && !answer.Succeeded {
			err = election.ErrLost
		}
		return err
	}
	_ = save
}
