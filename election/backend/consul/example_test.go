package consul_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/consul"
)

// One leader among all processes that run this, and among those that run
// "consul lock billing/nightly COMMAND".
func Example() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	backend := consul.New(client, consul.Options{})
	defer backend.Close()

	elector, err := election.New(backend, "billing/nightly", election.Options{Forever: true})
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
