package recipes

import (
	"context"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
)

// NextInvoice returns a number that nobody else gets. A lost answer leaves a gap.
func NextInvoice(ctx context.Context, c *client.Client) (int64, error) {
	return recipes.NewCounter(c, "/counters/invoice", recipes.Options{}).Add(ctx, 1)
}
