package recipes

import (
	"context"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/holders"
)

// Limited does something while at most two others do.
func Limited(ctx context.Context, store election.Backend, do func(context.Context) error) error {
	candidate, err := holders.New(store, "shop/exports", 3, election.Options{})
	if err != nil {
		return err
	}
	return candidate.Hold(ctx, func(ctx context.Context, _ holders.Place) error { return do(ctx) })
}
