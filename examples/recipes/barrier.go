package recipes

import (
	"context"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
)

// Migrate keeps everybody else waiting until a migration has succeeded.
func Migrate(ctx context.Context, c *client.Client, migrate func() error) error {
	barrier := recipes.NewBarrier(c, "/barriers/migration", recipes.Options{})
	if err := barrier.Raise(ctx); err != nil {
		return err
	}
	if err := migrate(); err != nil {
		return err // the barrier stays up
	}
	return barrier.Lower(ctx)
}

// AfterMigration waits until no migration is in progress.
func AfterMigration(ctx context.Context, c *client.Client) error {
	return recipes.NewBarrier(c, "/barriers/migration", recipes.Options{}).Wait(ctx)
}

// Round computes once all three members are there, and returns once all three have computed.
func Round(ctx context.Context, c *client.Client, compute func() error) error {
	barrier := recipes.NewDoubleBarrier(c, "/barriers/round", 3, recipes.Options{})
	if err := barrier.Enter(ctx); err != nil {
		return err
	}
	if err := compute(); err != nil {
		return err // this member's znode goes with its session
	}
	return barrier.Leave(ctx)
}
