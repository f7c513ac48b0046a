package recipes

import (
	"context"
	"errors"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
)

// Locked does something while nobody else does. Waiters get the lock in the order in which they
// came.
func Locked(ctx context.Context, c *client.Client, do func(context.Context, *recipes.Held) error) error {
	held, err := recipes.NewLock(c, "/locks/report", recipes.Options{}).Acquire(ctx)
	if err != nil {
		return err
	}
	working, cancel := held.Context(ctx) // ends with the lock
	defer cancel()
	err = do(working, held)
	return errors.Join(err, held.Release(context.WithoutCancel(ctx)))
}

// Store writes only while the lock is held: the servers check that in the same transaction.
func Store(ctx context.Context, held *recipes.Held, report []byte) error {
	_, err := held.Multi(ctx, client.SetOp("/report", report, -1))
	return err
}
