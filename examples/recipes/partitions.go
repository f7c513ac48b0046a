package recipes

import (
	"context"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/partition"
)

// Own works on some of twelve partitions. Together, all instances own each partition
// once.
func Own(ctx context.Context, store election.Backend, work func(ctx context.Context, partition int, token election.Token) error) error {
	member, err := partition.New(store, "shop/orders", partition.Options{Partitions: 12})
	if err != nil {
		return err
	}
	return member.Run(ctx, func(ctx context.Context, number int, lead election.Leadership) error {
		return work(ctx, number, lead.Token()) // ctx ends before the next owner begins
	})
}
