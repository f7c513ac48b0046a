package recipes

import (
	"context"

	"github.com/conclave-project/conclave/election"
)

// Lead works whenever this instance leads, until ctx ends. The address is for clients that look for
// the leader.
func Lead(ctx context.Context, store election.Backend, address string, work func(context.Context, election.Token) error) error {
	elector, err := election.New(store, "shop/orders", election.Options{Metadata: []byte(address)})
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		return work(ctx, lead.Token()) // ctx ends before anybody else may lead
	})
}

// FindLeader waits until an instance leads, and returns its address.
func FindLeader(ctx context.Context, store election.Backend) (string, error) {
	elector, err := election.New(store, "shop/orders", election.Options{})
	if err != nil {
		return "", err
	}
	view, err := elector.WaitLeader(ctx)
	return string(view.Metadata), err
}
