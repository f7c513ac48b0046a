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

// One leader among all processes that run this, and among those that run
// "etcdctl elect billing/nightly ID".
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

	elector, err := election.New(backend, "billing/nightly", election.Options{Forever: true})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		// What is written carries the token, so that an older one can be refused.
		fmt.Println("leading with token", lead.Token())
		<-ctx.Done()
		return nil
	})
	log.Print(err)
}
