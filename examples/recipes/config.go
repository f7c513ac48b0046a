package recipes

import (
	"context"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/cache"
)

// Configure calls set with every setting, and again with each setting that
// changes.
func Configure(ctx context.Context, c *client.Client, set func(path, value string)) error {
	config, err := cache.New(ctx, c, "/config/shop", cache.Options{})
	if err != nil {
		return err
	}
	defer config.Close()
	changes := config.Changes() // begins with all that is there
	defer changes.Close()
	for {
		change, err := changes.Next(ctx)
		if err != nil {
			return err
		}
		if change.Exists {
			set(change.Path, string(change.Znode.Data))
		}
	}
}
