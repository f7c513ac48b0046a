package partition_test

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
)

// Every process runs this; together they own each partition exactly once.
func Example() {
	backend := electiontest.NewStore(nil) // in a program: zookeeper.New, etcd.New, ...
	member, err := partition.New(backend, "billing", partition.Options{
		Partitions: 4,
		Election:   election.Options{ID: "host-1", Lease: 10 * time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	owned := make(chan int)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		sum := 0
		for range 4 {
			sum += <-owned
		}
		fmt.Println(member.ID(), "owns all four, whose numbers make", sum)
		cancel()
	}()
	err = member.Run(ctx, func(ctx context.Context, p int, lead election.Leadership) error {
		owned <- p // from here on, work with lead.Token() until ctx ends
		<-ctx.Done()
		return nil
	})
	fmt.Println(err)
	// Output:
	// host-1 owns all four, whose numbers make 6
	// context canceled
}
