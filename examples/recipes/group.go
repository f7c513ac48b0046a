package recipes

import (
	"context"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/cache"
	"github.com/conclave-project/conclave/zk"
)

// Join makes this instance a member for as long as its client's session lives.
func Join(ctx context.Context, c *client.Client, name, address string) error {
	_, _, err := c.CreateAll(ctx, "/groups/workers/"+name, []byte(address), client.CreateOptions{Mode: zk.Ephemeral})
	return err
}

// Members calls changed with the names of the members, now and whenever a member comes or goes.
func Members(ctx context.Context, c *client.Client, changed func(names []string)) error {
	group, err := cache.New(ctx, c, "/groups/workers", cache.Options{})
	if err != nil {
		return err
	}
	defer group.Close()
	changes := group.Changes()
	defer changes.Close()
	for {
		if _, err := changes.Next(ctx); err != nil {
			return err
		}
		changed(group.Children("/groups/workers"))
	}
}
